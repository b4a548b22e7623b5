// Output of a guest as lines of JSON: bytes that are text stay text, others become base64. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "wire/frames.h"

namespace firebreak::api {

// True for well-formed UTF-8. `tail` gets the number of bytes at the end that begin a character
// which is not complete.
bool is_utf8(std::string_view bytes, std::size_t& tail);

// {"type":"stdout","data":"text"} or {"type":"stdout","dataBase64":"..."}: a character cut in two
// by the transport is put together again.
class OutputLines {
 public:
  // Appends lines for one frame of an exec's or a context's stream.
  void add(const wire::Frame& frame, std::string& out);
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
