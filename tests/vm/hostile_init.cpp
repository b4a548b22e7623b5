// PID 1 of a guest that wants to harm its host: it has both ports and does on them what its
// behaviour says. The behaviour is the text after "behaviour:" at the end of /init itself, so one
// program serves every test.
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "guest/boot.h"
#include "wire/h2_session.h"
#include "wire/link.h"

namespace firebreak {
namespace {

constexpr std::string_view kMark = "behaviour:";
constexpr std::size_t kFlood = 64UL * 1024;

std::string behaviour() {
  auto self = sys::read_file("/init", 256UL << 20);
  const auto at = self ? self->rfind(kMark) : std::string::npos;
  return at == std::string::npos ? "silent" : self->substr(at + kMark.size());
}

[[noreturn]] void rest() {
  for (;;) ::pause();
}

std::string repeated(std::string_view unit) {
  std::string out;
  while (out.size() < kFlood) out += unit;
  return out;
}

std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string out;
  put_u32(out, static_cast<std::uint32_t>(payload.size()) << 8 | type);
  out += static_cast<char>(flags);
  put_u32(out, stream);
  out += payload;
  return out;
}

// One port. The honest part: it answers syncs and serves every request.
class Hostile : public wire::LinkDecoder::Sink, public wire::H2Handler {
 public:
  Hostile(int fd, std::string behaviour) : fd_(fd), behaviour_(std::move(behaviour)) {}

  [[noreturn]] void live() {
    if (behaviour_ == "deaf") rest();
    if (behaviour_ == "flood") flood(repeated("not a word of sense \xf5\x46\x42\x52\x4b\xf8 "));
    for (;;) {
      pollfd ready{fd_, POLLIN, 0};
      if (::poll(&ready, 1, top_up() ? 0 : -1) > 0 && (ready.revents & POLLIN) != 0) read_some();
      if ((ready.revents & POLLHUP) != 0) rest();
      send_output();
    }
  }

 private:
  // Everything below is as the host wants it, until a behaviour says otherwise.
  void on_sync(const wire::Sync& sync) override {
    if (behaviour_ == "silent") return;
    std::string out;
    const int answers = behaviour_ == "many_syncs" ? 1000 : 1;
    for (int i = 0; i < answers; ++i) encoder_.sync(sync, out);
    send(out);
    session_ = wire::H2Session::server({}, *this);
    if (behaviour_ == "sync_garbage") flood_stuffed(repeated("not HTTP/2 "));
    if (behaviour_ == "half_frame") {
      send_stuffed(frame(4, 0, 0, "").substr(0, 5));
      rest();
    }
    send_output();
    if (behaviour_ == "settings_flood") flood_stuffed(repeated(frame(4, 0, 0, "")));
    if (behaviour_ == "ping_flood") flood_stuffed(repeated(frame(6, 0, 0, "12345678")));
    // A type that nobody knows: receivers must ignore it, so the connection stays good for ever.
    if (behaviour_ == "unknown_frames") flood_stuffed(repeated(frame(0x77, 0, 0, "12345678")));
  }
  void on_data(std::string_view bytes) override {
    if (session_ && !session_->receive(bytes)) rest();
  }
  void on_headers(wire::StreamId stream, wire::Headers headers, bool end) override {
    paths_[stream] = wire::find_header(headers, ":path");
    if (end) answer(stream);
  }
  void on_data(wire::StreamId stream, std::string_view bytes) override {
    session_->consume(stream, bytes.size());
  }
  void on_end(wire::StreamId stream) override { answer(stream); }
  void on_closed(wire::StreamId stream, std::uint32_t) override {
    paths_.erase(stream);
    if (endless_ == stream) endless_.reset();
  }

  void answer(wire::StreamId stream) {
    auto path = paths_.extract(stream);
    if (path.empty()) return;
    const bool health = path.mapped() == "/health";
    const auto id = static_cast<std::uint32_t>(stream);
    if (health && behaviour_ == "endless_headers") {
      send_stuffed(frame(1, 0, id, "\x88"));  // :status 200, and the header block goes on
      flood_stuffed(repeated(frame(9, 0, id, std::string("\x00\x01x\x01y", 5))));
    }
    if (health && behaviour_ == "endless_hints")
      flood_stuffed(repeated(frame(1, 4, id, std::string("\x08\x03\x31\x30\x33", 5))));
    (void)session_->respond(stream, {{":status", "200"}}, false);
    if (health && behaviour_ == "endless_body") {
      endless_ = stream;
      return;
    }
    session_->write(stream,
                    R"({"protocol":1,"agent":"x","pid":1,"tenant":"running","generation":1})");
    session_->finish(stream);
  }

  // Keeps the endless body's queue full. True while there is something to send.
  bool top_up() {
    static const std::string chunk(kFlood, 'x');
    return endless_ && session_->write(*endless_, chunk) > 0;
  }
  void read_some() {
    const ssize_t n = ::read(fd_, in_, sizeof in_);
    if (n > 0) decoder_.feed(std::span(in_, static_cast<std::size_t>(n)), *this);
  }
  void send_output() {
    std::string plain;
    while (session_ && session_->take_output(plain)) send_stuffed(std::exchange(plain, {}));
  }
  void send_stuffed(std::string_view bytes) {
    std::string out;
    encoder_.data(bytes, out);
    send(out);
  }
  void send(const std::string& bytes) {
    if (!sys::write_all(fd_, bytes)) rest();
  }
  [[noreturn]] void flood(const std::string& bytes) {
    for (;;) send(bytes);
  }
  [[noreturn]] void flood_stuffed(const std::string& bytes) {
    for (;;) send_stuffed(bytes);
  }

  int fd_;
  std::string behaviour_;
  wire::LinkEncoder encoder_;
  wire::LinkDecoder decoder_;
  std::unique_ptr<wire::H2Session> session_;
  std::map<wire::StreamId, std::string> paths_;
  std::optional<wire::StreamId> endless_;
  char in_[16 * 1024];
};

}  // namespace
}  // namespace firebreak

int main() {
  using namespace firebreak;
  auto ready = guest::mount_agent_filesystems();
  if (ready) ready = guest::load_modules("/modules");
  auto ports = guest::open_ports();
  if (!ready || !ports) return 1;  // the kernel panics and the machine ends
  // Blocking writes: a flood runs exactly as fast as the host takes it.
  for (const int fd : {ports->ctl.get(), ports->data.get()})
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const std::string how = behaviour();
  // "data=X": the control port is honest.
  const bool data_only = how.starts_with("data=");
  std::thread data([&] { Hostile(ports->data.get(), data_only ? how.substr(5) : how).live(); });
  Hostile(ports->ctl.get(), data_only ? "honest" : how).live();
}
