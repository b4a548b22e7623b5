#include "client.h"

#include <cstdlib>

#include <boost/asio/co_spawn.hpp>

#include "base/sys.h"

namespace firebreak::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Error error_of(int status, std::string_view body) {
  Error error{Code::internal, "the server answered with status " + std::to_string(status), {}};
  auto object = parse_json_object(body);
  if (!object) return error;
  JsonReader reader(*object);
  const std::string code = reader.string_or("code", "");
  error.message = reader.string_or("message", error.message);
  for (Code known :
       {Code::invalid, Code::unauthenticated, Code::denied, Code::not_found, Code::conflict,
        Code::exhausted, Code::unavailable, Code::timeout, Code::corrupt, Code::guest}) {
    if (to_string(known) == code) error.code = known;
  }
  return error;
}

Result<json::object> read_json(const std::string& path) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path));
  return parse_json_object(text);
}

}  // namespace

Result<Connection> find_server(const std::string& data_dir) {
  Connection found{.url = environment("FIREBREAK_URL"),
                   .host = {},
                   .api_key = environment("FIREBREAK_API_KEY"),
                   .ca_file = environment("FIREBREAK_CA_FILE")};
  if (found.url.empty()) {
    auto about = read_json(data_dir + "/server.json");
    if (!about) {
      return fail(Code::unavailable,
                  "no server is running on " + data_dir +
                      "; start one with 'firebreak serve', or set FIREBREAK_URL");
    }
    JsonReader reader(*about);
    found.url = reader.string("url");
    if (found.ca_file.empty()) found.ca_file = reader.string_or("caFile", "");
    FB_TRY(reader.result());
  }
  if (found.api_key.empty()) {
    auto keys = read_json(data_dir + "/credentials.json");
    if (!keys) {
      return fail(Code::unauthenticated,
                  "cannot read " + data_dir + "/credentials.json; set FIREBREAK_API_KEY");
    }
    JsonReader reader(*keys);
    found.api_key = reader.string("apiKey");
    FB_TRY(reader.result());
  }
  const auto at = found.url.find("://");
  found.host = at == std::string::npos ? found.url : found.url.substr(at + 3);
  if (const auto slash = found.host.find('/'); slash != std::string::npos) found.host.resize(slash);
  return found;
}

Result<> Client::run(net::Task<Result<>> task) {
  Result<> outcome;
  bool done = false;
  net::asio::co_spawn(io_, std::move(task), [&](std::exception_ptr error, Result<> result) {
    if (error) std::rethrow_exception(error);
    outcome = std::move(result);
    done = true;
  });
  while (!done) io_.run_one();
  return outcome;
}

net::Task<Result<std::unique_ptr<net::ByteStream>>> Client::connect() {
  auto stream = co_await net::connect_url(connection_.url, connection_.ca_file,
                                          Deadline::in(std::chrono::seconds(10)));
  if (!stream)
    co_return fail(Code::unavailable,
                   "cannot reach the server at " + connection_.url + ": " + stream.error().message);
  co_return stream;
}

net::HttpCall Client::request(std::string method, std::string path) const {
  net::HttpCall call{.method = std::move(method),
                     .target = std::move(path),
                     .host = connection_.host,
                     .headers = {},
                     .body = {}};
  call.headers.push_back({"authorization", "Bearer " + connection_.api_key});
  call.headers.push_back({"connection", "close"});
  return call;
}

net::Task<Result<json::object>> Client::call(std::string method, std::string path,
                                             std::optional<json::object> body) {
  FB_CO_TRY_ASSIGN(auto stream, co_await connect());
  net::HttpCall call = request(std::move(method), std::move(path));
  if (body) {
    call.headers.push_back({"content-type", "application/json"});
    call.body = json::serialize(*body);
  }
  FB_CO_TRY_ASSIGN(const net::HttpReply reply,
                   co_await net::http_call(*stream, call, far_away(), 64UL << 20));
  if (reply.status < 200 || reply.status > 299)
    co_return std::unexpected(error_of(reply.status, reply.body));
  if (reply.body.empty()) co_return json::object{};
  co_return parse_json_object(reply.body);
}

net::Task<Result<std::unique_ptr<net::HttpClientStream>>> Client::start(std::string method,
                                                                        std::string path,
                                                                        bool streamed,
                                                                        wire::Headers headers) {
  FB_CO_TRY_ASSIGN(auto stream, co_await connect());
  net::HttpCall call = request(std::move(method), std::move(path));
  for (wire::HeaderField& header : headers) call.headers.push_back(std::move(header));
  co_return co_await net::HttpClientStream::start(std::move(stream), std::move(call), streamed,
                                                  Deadline::in(std::chrono::seconds(30)));
}

net::Task<Result<>> Client::check(net::HttpClientStream& stream) {
  FB_CO_TRY_ASSIGN(const net::HttpReply head, co_await stream.head(far_away()));
  if (head.status >= 200 && head.status <= 299) co_return Result<>();
  std::string body;
  while (body.size() < (1UL << 20)) {
    auto more = co_await stream.read(Deadline::in(std::chrono::seconds(10)));
    if (!more || more->empty()) break;
    body += *more;
  }
  co_return std::unexpected(error_of(head.status, body));
}

net::Task<Result<>> Client::lines(std::string method, std::string path,
                                  std::optional<json::object> body,
                                  std::function<Result<>(json::object)> on_line) {
  FB_CO_TRY_ASSIGN(auto stream, co_await connect());
  net::HttpCall call = request(std::move(method), std::move(path));
  if (body) {
    call.headers.push_back({"content-type", "application/json"});
    call.body = json::serialize(*body);
  }
  FB_CO_TRY_ASSIGN(auto exchange,
                   co_await net::HttpClientStream::start(std::move(stream), std::move(call), false,
                                                         Deadline::in(std::chrono::seconds(30))));
  FB_CO_TRY(co_await check(*exchange));
  std::string held;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await exchange->read(far_away()));
    if (bytes.empty()) co_return Result<>();
    held += bytes;
    std::size_t from = 0;
    for (std::size_t end = held.find('\n'); end != std::string::npos; end = held.find('\n', from)) {
      FB_CO_TRY_ASSIGN(json::object line,
                       parse_json_object(std::string_view(held).substr(from, end - from)));
      FB_CO_TRY(on_line(std::move(line)));
      from = end + 1;
    }
    held.erase(0, from);
  }
}

net::Task<Result<std::unique_ptr<net::WebSocket>>> Client::websocket(std::string path) {
  FB_CO_TRY_ASSIGN(auto stream, co_await connect());
  co_return co_await net::open_websocket(std::move(stream), connection_.host, std::move(path),
                                         {{"authorization", "Bearer " + connection_.api_key}}, {},
                                         Deadline::in(std::chrono::seconds(60)));
}

}  // namespace firebreak::cli
