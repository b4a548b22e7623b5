#include "guest/exchange.h"

namespace firebreak::guest {
namespace {

// The host cancels tunnels as often as its clients leave.
constexpr std::uint32_t kMaxResets = 100'000;

// The codes of the protocol; what it has no word for becomes the nearest one.
std::string_view protocol_code(Code code) {
  switch (code) {
    case Code::corrupt:
      return to_string(Code::invalid);
    case Code::timeout:
      return to_string(Code::unavailable);
    case Code::unauthenticated:
      return to_string(Code::denied);
    case Code::guest:
      return to_string(Code::internal);
    default:
      return to_string(code);
  }
}

class JsonCall final : public StreamHandler {
 public:
  JsonCall(std::shared_ptr<Exchange> exchange, JsonOpen open)
      : exchange_(std::move(exchange)), open_(std::move(open)) {}

  void on_data(std::string_view bytes) override {
    exchange_->consume(bytes.size());
    if (too_large_) return;
    if (body_.size() + bytes.size() > kMaxBody) {
      too_large_ = true;
      exchange_->error(400, "invalid", "the body is larger than 1 MiB");
      return;
    }
    body_.append(bytes);
  }

  void on_end() override {
    if (too_large_) return;
    auto body = parse_json_object(body_.empty() ? "{}" : std::string_view(body_));
    if (!body) return exchange_->error(body.error());
    next_ = open_(*body);
  }

  void on_writable() override {
    if (next_) next_->on_writable();
  }
  void on_closed() override {
    if (next_) next_->on_closed();
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  JsonOpen open_;
  std::unique_ptr<StreamHandler> next_;
  std::string body_;
  bool too_large_ = false;
};

}  // namespace

std::unique_ptr<StreamHandler> json_call(std::shared_ptr<Exchange> exchange,
                                         std::function<void(const json::object&)> call) {
  return json_then(std::move(exchange), [call = std::move(call)](const json::object& body) {
    call(body);
    return std::unique_ptr<StreamHandler>();
  });
}

std::unique_ptr<StreamHandler> json_then(std::shared_ptr<Exchange> exchange, JsonOpen open) {
  return std::make_unique<JsonCall>(std::move(exchange), std::move(open));
}

void Exchange::json(int status, const json::object& body) {
  if (!open()) return;
  begin(status, "application/json");
  write(json::serialize(body));
  finish();
  // An answer that did not wait for the whole request: the rest need not be sent.
  if (!request_ended_) connection_->session_->reset(stream_, wire::H2Error::no_error);
}

void Exchange::error(const Error& error) {
  json::object body{{"code", protocol_code(error.code)}, {"message", error.message}};
  if (!error.reason.empty()) body["reason"] = error.reason;
  if (!error.repair.empty()) body["repair"] = error.repair;
  json(status_of(error.code), body);
}

void Exchange::error(int status, std::string_view code, std::string_view message) {
  json(status, {{"code", json::string_view(code.data(), code.size())},
                {"message", json::string_view(message.data(), message.size())}});
}

void Exchange::begin(int status, std::string_view content_type, const wire::Headers& extra) {
  if (!open()) return;
  wire::Headers headers{{":status", std::to_string(status)},
                        {"content-type", std::string(content_type)}};
  headers.insert(headers.end(), extra.begin(), extra.end());
  if (!connection_->session_->respond(stream_, headers, false)) reset();
}

std::size_t Exchange::write(std::string_view bytes) {
  return open() ? connection_->session_->write(stream_, bytes) : bytes.size();
}

void Exchange::finish() {
  if (open()) connection_->session_->finish(stream_);
}

void Exchange::reset() {
  if (open()) connection_->session_->reset(stream_, wire::H2Error::cancel);
}

void Exchange::consume(std::size_t bytes) {
  if (open()) connection_->session_->consume(stream_, bytes);
}

std::size_t Exchange::queued() const {
  return open() ? connection_->session_->queued(stream_) : 0;
}

Connection::Connection(Service& service)
    : service_(service),
      session_(wire::H2Session::server(
          wire::H2Limits{.write_queue = kWriteQueue, .max_resets_per_second = kMaxResets}, *this)) {
}

Connection::~Connection() {
  for (auto& [id, stream] : streams_) stream.exchange->connection_ = nullptr;
  for (auto& [id, stream] : streams_) {
    if (stream.handler) stream.handler->on_closed();
  }
}

StreamHandler* Connection::find(wire::StreamId stream) {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.handler.get();
}

void Connection::on_headers(wire::StreamId stream, wire::Headers headers, bool) {
  auto exchange = std::make_shared<Exchange>(*this, stream);
  Stream& entry = streams_[stream];
  entry.exchange = exchange;
  auto request = parse_request(headers);
  if (!request) return exchange->error(request.error());
  entry.handler = service_.open(*request, exchange);
}

void Connection::on_data(wire::StreamId stream, std::string_view bytes) {
  if (StreamHandler* handler = find(stream)) return handler->on_data(bytes);
  session_->consume(stream, bytes.size());
}

void Connection::on_end(wire::StreamId stream) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  at->second.exchange->request_ended_ = true;
  if (at->second.handler) at->second.handler->on_end();
}

void Connection::on_writable(wire::StreamId stream) {
  if (StreamHandler* handler = find(stream)) handler->on_writable();
}

void Connection::on_closed(wire::StreamId stream, std::uint32_t) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  Stream gone = std::move(at->second);
  streams_.erase(at);
  gone.exchange->connection_ = nullptr;
  if (gone.handler) gone.handler->on_closed();
}

}  // namespace firebreak::guest
