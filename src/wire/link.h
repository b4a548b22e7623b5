// The lowest layer of the channel: a byte stream that either side can restart at any byte.
// Sans-I/O. docs/agent-protocol.md section 1. One encoder and one decoder per port; single thread
// each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace firebreak::wire {

using Nonce = std::array<std::byte, 16>;

struct Sync {
  std::uint16_t version = 0;
  Nonce nonce{};
  friend bool operator==(const Sync&, const Sync&) = default;
};

// Appends stuffed bytes to an output buffer. The state between calls is how much of the sync word
// was just sent.
class LinkEncoder {
 public:
  void sync(const Sync& sync, std::string& out);  // may be sent at any time
  void data(std::string_view bytes, std::string& out);

 private:
  void stuff(std::string_view bytes, std::string& out);
  std::size_t matched_ = 0;
};

// Takes received bytes apart. Never fails: what is not understood is discarded until the next sync.
class LinkDecoder {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void on_sync(const Sync& sync) = 0;
    // Bytes since the last valid sync; before the first one nothing is delivered. May be called
    // several times per feed().
    virtual void on_data(std::string_view bytes) = 0;
  };
  // Views given to the sink point into `in`. What looks like the beginning of a sync at the end of
  // `in` is delivered as data at once (a peer may wait for the answer to it): up to 7 bytes of a
  // sync that was split there may end the data before it.
  void feed(std::span<char> in, Sink& sink);

 private:
  enum class Mode { discard, body, data };
  void after_prefix(char byte);
  void finish_body(Sink& sink);
  Mode mode_ = Mode::discard;
  std::size_t matched_ = 0;  // bytes of the sync word seen at the end of the input so far
  std::string body_;         // of a sync being received
};

}  // namespace firebreak::wire
