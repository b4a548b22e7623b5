#include "net/http.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>

#include <fmt/format.h>

#include "base/text.h"
#include "net/http_connection.h"

namespace firebreak::net {
namespace {

using namespace std::string_view_literals;

// RFC 9110 section 7.6.1: of one connection, not of the message.
constexpr std::array<std::string_view, 6> kHopByHop{
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"};

std::optional<std::string> decode_query(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return percent_decode(spaced);
}

}  // namespace

std::string_view Target::query_value(std::string_view name) const {
  const auto it = std::ranges::find(query, name, &std::pair<std::string, std::string>::first);
  return it == query.end() ? std::string_view() : std::string_view(it->second);
}

bool Target::has_query(std::string_view name) const {
  return std::ranges::any_of(query, [&](const auto& pair) { return pair.first == name; });
}

std::optional<Target> parse_target(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  Target out;
  const auto mark = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(1, mark - 1);
  if (!path.empty()) {
    for (const std::string_view segment : split(path, '/')) {
      auto decoded = percent_decode(segment);
      if (!decoded) return std::nullopt;
      out.segments.push_back(*std::move(decoded));
    }
  }
  if (mark == target.size()) return out;
  for (const std::string_view pair : split(target.substr(mark + 1), '&')) {
    if (pair.empty()) continue;
    const auto equals = std::min(pair.find('='), pair.size());
    auto name = decode_query(pair.substr(0, equals));
    auto value = decode_query(pair.substr(std::min(equals + 1, pair.size())));
    if (!name || !value) return std::nullopt;
    out.query.emplace_back(*std::move(name), *std::move(value));
  }
  return out;
}

Task<Result<>> HttpExchange::reply(int status, wire::Headers headers, std::string body,
                                   Deadline deadline) {
  std::erase_if(headers, [](const auto& field) { return field.name == "content-length"; });
  if (status != 304) headers.push_back({"content-length", std::to_string(body.size())});
  FB_CO_TRY(co_await start(status, std::move(headers), deadline));
  if (!body.empty()) FB_CO_TRY(co_await write(body, deadline));
  co_return co_await finish(deadline);
}

Task<Result<std::string>> HttpExchange::read_all(std::size_t limit, Deadline deadline) {
  std::string body;
  for (;;) {
    FB_CO_TRY_ASSIGN(std::string bytes, co_await read(deadline));
    if (bytes.empty()) co_return body;
    if (bytes.size() > limit - body.size())
      co_return fail(Code::exhausted,
                     "the request's body is larger than " + std::to_string(limit) + " bytes");
    body.append(bytes);
  }
}

Result<> AnswerPlan::count(std::size_t bytes) {
  written += bytes;
  if (length && !bodyless && written > *length)
    return fail(Code::internal, "the answer's body is longer than its content-length");
  return {};
}

Result<> AnswerPlan::check_complete() const {
  if (length && !bodyless && written != *length)
    return fail(Code::internal, "the answer's body is shorter than its content-length");
  return {};
}

Result<AnswerPlan> plan_answer(const std::string& method, int status, wire::Headers headers) {
  if (status < 200 || status > 599)
    return fail(Code::internal, "not a final status: " + std::to_string(status));
  AnswerPlan plan;
  plan.bodyless = method == "HEAD" || status == 204 || status == 304;
  bool dated = false;
  for (const auto& [name, value] : headers) {
    if (name == "connection"sv && value == "close"sv) plan.close = true;
    if (name == "content-length"sv && status != 204) {
      plan.length = parse_u64(value);
      if (!plan.length) return fail(Code::internal, "bad content-length of an answer");
    }
    dated = dated || name == "date"sv;
  }
  std::erase_if(headers, [status](const wire::HeaderField& field) {
    return std::ranges::find(kHopByHop, field.name) != kHopByHop.end() ||
           (status == 204 && field.name == "content-length"sv);
  });
  plan.headers = std::move(headers);
  if (!dated) plan.headers.push_back({"date", http_date()});
  return plan;
}

Task<void> run_handler(const HttpService& service, HttpExchange& exchange) {
  std::exception_ptr thrown;
  try {
    co_await service.handler(exchange);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) {
    const HttpRequest& request = exchange.request();
    // Query values may be secrets.
    const std::string path = request.target.substr(0, request.target.find('?'));
    service.exceptions.report("handler", request.method + " " + path, thrown);
  }
  if (exchange.started()) co_return;
  const std::string body =
      thrown
          ? "{\"code\":\"internal\",\"message\":\"the server failed at this request, and its log "
            "says why; try again, and tell the operator if it stays so\",\"repair\":\"try again, "
            "and tell the operator if it stays so\"}\n"
          : "{\"code\":\"internal\",\"message\":\"the server gave no answer to this request\"}\n";
  (void)co_await exchange.reply(500, {{"content-type", "application/json"}}, body,
                                Deadline::in(kServerWriteTimeout));
}

std::string http_date() {
  static constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed",
                                                         "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> kMonths{
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays.at(static_cast<std::size_t>(utc.tm_wday)), utc.tm_mday,
                     kMonths.at(static_cast<std::size_t>(utc.tm_mon)), utc.tm_year + 1900,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace firebreak::net
