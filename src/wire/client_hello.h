// What the two ends of a TLS connection say first (RFC 8446, 5246, 6066), without I/O: the name the
// client asks for, and whether the server wants to be asked again. The client is hostile: what two
// readers could read differently is refused. One owner; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace firebreak::wire {

enum class HelloFault : std::uint8_t {
  not_tls,    // not the beginning of a handshake
  malformed,  // lengths that do not fit, names that are none
  too_long,
  no_name,
  two_names
};
std::string_view to_string(HelloFault fault);  // "the ClientHello names two servers"

inline constexpr std::size_t kMaxClientHello = 16UL * 1024;
// With its records, of which each may carry a single byte.
inline constexpr std::size_t kMaxClientHelloBytes = 128UL * 1024;

// Reads one ClientHello from a stream, in pieces of any size and records of any size.
class ClientHelloReader {
 public:
  enum class State : std::uint8_t { more, done, refused };
  enum class Which : std::uint8_t {
    first,
    // After a HelloRetryRequest: records that are not part of a handshake may come before.
    second
  };

  explicit ClientHelloReader(Which which = Which::first) : which_(which) {}

  // The caller keeps the bytes and holds them back until the reader is done. The reader does not
  // look at anything behind the hello.
  State feed(std::string_view bytes);
  State state() const { return state_; }
  // done: as the client wrote it, letters, digits, '-', '_' and '.' only; 1 to 255.
  const std::string& server_name() const { return name_; }
  HelloFault fault() const { return fault_; }  // refused
  // done: so many of the bytes were the hello and what came before.
  std::size_t size() const { return seen_; }

 private:
  void header_byte(std::uint8_t byte);
  void payload(std::string_view bytes);
  void refuse(HelloFault fault);

  Which which_;
  State state_ = State::more;
  HelloFault fault_ = HelloFault::malformed;
  std::size_t seen_ = 0;    // bytes in all
  std::size_t header_ = 0;  // bytes of the record's header so far
  std::size_t left_ = 0;    // of the record's payload; its length while the header is read
  bool skipped_ = false;    // this record is of no interest
  std::string message_;
  std::string name_;
};

// Reads from a server's first bytes whether it wants another ClientHello.
class ServerAnswerReader {
 public:
  enum class State : std::uint8_t {
    more,
    retry,  // a HelloRetryRequest: the client will say its name again
    other   // it will not
  };
  State feed(std::string_view bytes);
  State state() const { return state_; }

 private:
  State state_ = State::more;
  std::string record_;    // header of the one being read
  std::size_t left_ = 0;  // of its payload
  std::string message_;   // the beginning of the server's first message
};

}  // namespace firebreak::wire
