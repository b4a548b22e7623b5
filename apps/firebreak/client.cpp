#include "client.h"

#include <cstdlib>

#include <boost/asio/co_spawn.hpp>

#include "base/sys.h"
#include "contexts.h"

namespace firebreak::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What the body of a refusal says, in place of `error`.
Error error_of(Error error, std::string_view body) {
  auto object = parse_json_object(body);
  if (!object) return error;
  JsonReader reader(*object);
  const std::string code = reader.string_or("code", "");
  error.message = reader.string_or("message", error.message);
  error.reason = reader.string_or("reason", "");
  error.repair = reader.string_or("repair", "");
  for (Code known :
       {Code::invalid, Code::unauthenticated, Code::denied, Code::not_found, Code::conflict,
        Code::exhausted, Code::unavailable, Code::timeout, Code::corrupt, Code::guest}) {
    if (to_string(known) == code) error.code = known;
  }
  return error;
}

Error error_of(int status, std::string_view body) {
  return error_of({Code::internal, "the server answered with status " + std::to_string(status), {}},
                  body);
}

// A member of a file that the server wrote into its data directory.
Result<json::object> read_server_file(const std::string& file, std::string otherwise,
                                      Repair repair) {
  auto text = sys::read_file(file);
  if (text) return parse_json_object(*text);
  if (text.error().code == Code::denied) {
    return fail(Code::denied, file + " can be read by root only",
                Repair{"run as root, set FIREBREAK_URL and "
                       "FIREBREAK_API_KEY, or run 'firebreak login URL'"});
  }
  return fail(Code::unavailable, std::move(otherwise), std::move(repair));
}

Result<std::string> local_key(const std::string& data_dir) {
  const std::string file = data_dir + "/credentials.json";
  FB_TRY_ASSIGN(const json::object keys,
                read_server_file(file, file + " is not there",
                                 Repair{"set FIREBREAK_API_KEY, or run 'firebreak login URL'"}));
  JsonReader reader(keys);
  std::string key = reader.string("apiKey");
  FB_TRY(reader.result());
  return key;
}

Result<Connection> local_server(const std::string& data_dir, std::string key, std::string ca_file) {
  FB_TRY_ASSIGN(const json::object about,
                read_server_file(data_dir + "/server.json", "no server is running on " + data_dir,
                                 Repair{"start one with 'firebreak serve', set FIREBREAK_URL, or "
                                        "run 'firebreak login URL'"}));
  JsonReader reader(about);
  const std::string url = reader.string("url");
  if (ca_file.empty()) ca_file = reader.string_or("caFile", "");
  FB_TRY(reader.result());
  if (key.empty()) {
    FB_TRY_ASSIGN(key, local_key(data_dir));
  }
  return connection_to(url, std::move(key), std::move(ca_file));
}

}  // namespace

Result<Connection> connection_to(std::string url, std::string api_key, std::string ca_file) {
  const auto at = url.find("://");
  const std::string scheme = url.substr(0, at == std::string::npos ? 0 : at);
  std::string host = at == std::string::npos ? "" : url.substr(at + 3);
  if (const auto slash = host.find('/'); slash != std::string::npos) host.resize(slash);
  if ((scheme != "http" && scheme != "https") || host.empty())
    return fail(Code::invalid, "'" + url + "' is not a server's address",
                Repair{"write http://HOST:PORT or "
                       "https://HOST:PORT"});
  return Connection{.url = std::move(url),
                    .host = std::move(host),
                    .api_key = std::move(api_key),
                    .ca_file = std::move(ca_file)};
}

Result<Connection> find_local_server(const std::string& data_dir) {
  return local_server(data_dir, "", "");
}

Result<Connection> find_server(const ServerChoice& choice) {
  if (!choice.context.empty()) {
    FB_TRY_ASSIGN(const Contexts contexts, read_contexts());
    FB_TRY_ASSIGN(ServerContext server, find_context(contexts, choice.context));
    return connection_to(server.url, server.api_key, server.ca_file);
  }
  std::string key = environment("FIREBREAK_API_KEY");
  const std::string ca_file = environment("FIREBREAK_CA_FILE");
  if (const std::string url = environment("FIREBREAK_URL"); !url.empty()) {
    if (key.empty()) {
      FB_TRY_ASSIGN(key, local_key(choice.data_dir));
    }
    return connection_to(url, std::move(key), ca_file);
  }
  if (!choice.data_dir_given) {
    FB_TRY_ASSIGN(const Contexts contexts, read_contexts());
    if (!contexts.current.empty()) {
      FB_TRY_ASSIGN(ServerContext server, find_context(contexts, contexts.current));
      return connection_to(server.url, key.empty() ? server.api_key : key,
                           ca_file.empty() ? server.ca_file : ca_file);
    }
  }
  return local_server(choice.data_dir, std::move(key), ca_file);
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
  auto socket = co_await net::open_websocket(std::move(stream), connection_.host, std::move(path),
                                             {{"authorization", "Bearer " + connection_.api_key}},
                                             {}, far_away());
  if (!socket && !socket.error().detail.empty())
    co_return std::unexpected(error_of(socket.error(), socket.error().detail));
  co_return socket;
}

}  // namespace firebreak::cli
