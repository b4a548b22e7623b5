#include "guest/rehearsal.h"

#include <array>

namespace firebreak::guest {
namespace {
constexpr std::chrono::seconds kAtMost{20};
// An image without a shell may have `true`, one without either rehearses everything but a process.
constexpr std::array<std::string_view, 2> kAttempts{
    R"({"shell":"echo rehearsal; echo rehearsal >&2"})", R"({"argv":["true"]})"};
}  // namespace

Rehearsal::Rehearsal(Reactor& reactor, ExecTable& execs, std::function<void(Result<>)> done)
    : reactor_(reactor),
      execs_(execs),
      done_(std::move(done)),
      service_(execs, ExecTable::Purpose::rehearsal),
      client_(wire::H2Session::client(wire::H2Limits{}, *this)),
      server_(std::make_unique<Connection>(service_)) {
  deadline_ = reactor_.after(
      kAtMost, [this] { finish(fail(Code::timeout, "the rehearsal did not end in time")); });
  request(kAttempts.front());
  pump();
}

Rehearsal::~Rehearsal() {
  reactor_.cancel(deadline_);
}

void Rehearsal::request(std::string_view body) {
  ++attempt_;
  refused_ = false;
  const auto stream = client_->request({{":method", "POST"},
                                        {":scheme", "http"},
                                        {":authority", "agent"},
                                        {":path", "/execs?attach=1"}},
                                       false);
  if (!stream) return finish(std::unexpected(stream.error()));
  client_->write(*stream, body);
  client_->finish(*stream);
}

void Rehearsal::pump() {
  if (finished_) return;
  for (bool moved = true; moved;) {
    moved = false;
    wire_.clear();
    if (client_->take_output(wire_)) moved = server_->receive(wire_).has_value();
    wire_.clear();
    if (server_->take_output(wire_, wire::H2Limits{}.stream_window))
      moved = client_->receive(wire_).has_value() || moved;
  }
}

void Rehearsal::on_headers(wire::StreamId, wire::Headers headers, bool) {
  refused_ = wire::find_header(headers, ":status") != "200";
}

void Rehearsal::on_data(wire::StreamId stream, std::string_view bytes) {
  client_->consume(stream, bytes.size());
}

void Rehearsal::on_closed(wire::StreamId, std::uint32_t) {
  execs_.forget_rehearsal();
  if (refused_ && static_cast<std::size_t>(attempt_) < kAttempts.size())
    return request(kAttempts[static_cast<std::size_t>(attempt_)]);
  finish({});
}

void Rehearsal::finish(Result<> result) {
  if (finished_) return;
  finished_ = true;
  execs_.forget_rehearsal();
  done_(std::move(result));
}

}  // namespace firebreak::guest
