// Output of a guest as lines of JSON: bytes that are text stay text, others become base64. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "session/output.h"

namespace firebreak::api {

// True for well-formed UTF-8. `tail` gets the number of bytes at the end that begin a character
// which is not complete.
bool is_utf8(std::string_view bytes, std::size_t& tail);

// Bytes that are no UTF-8 become U+FFFD, one for each.
std::string replace_invalid_utf8(std::string_view bytes);

// {"type":"stdout","data":"text"} or {"type":"stdout","dataBase64":"..."}: a character cut in two
// by the transport is put together again.
class OutputLines {
 public:
  // Appends lines for one event of a command's or a run's output.
  void add(const session::Chunk& chunk, std::string& out);
  static void add(const session::Gap& gap, std::string& out);
  // What was held back at the end.
  void flush(std::string& out);

 private:
  struct Stream {
    std::string_view name;
    std::string held;
  };
  static void put(const Stream& stream, std::string_view bytes, std::string& out);
  void add_bytes(Stream& stream, std::string_view bytes, std::string& out);

  Stream out_{"stdout", {}};
  Stream err_{"stderr", {}};
};

// As a member of an object: "stdout" or "stdoutBase64".
void put_bytes(json::object& object, const std::string& name, std::string_view bytes);

}  // namespace firebreak::api
