#include "api/native/output_json.h"

#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::api {
namespace {

// Length of the character that a first byte begins; 0 for a byte that begins none.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// The second byte has a narrower range after some first bytes (no overlong forms, no surrogates).
bool second_fits(unsigned char first, unsigned char second) {
  if (first == 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (first == 0xed) return second >= 0x80 && second <= 0x9f;
  if (first == 0xf0) return second >= 0x90 && second <= 0xbf;
  if (first == 0xf4) return second >= 0x80 && second <= 0x8f;
  return (second & 0xc0) == 0x80;
}

}  // namespace

bool is_utf8(std::string_view bytes, std::size_t& tail) {
  tail = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    const std::size_t length = length_of(first);
    if (length == 0) return false;
    for (std::size_t i = 1; i < length; ++i) {
      if (at + i == bytes.size()) {
        tail = i;
        return true;
      }
      const auto next = static_cast<unsigned char>(bytes[at + i]);
      if (i == 1 ? !second_fits(first, next) : (next & 0xc0) != 0x80) return false;
    }
    at += length;
  }
  return true;
}

void OutputLines::put(const Stream& stream, std::string_view bytes, std::string& out) {
  if (bytes.empty()) return;
  json::object line{{"type", stream.name}};
  put_bytes(line, "data", bytes);
  out += json::serialize(line) + "\n";
}

void OutputLines::add_bytes(Stream& stream, std::string_view bytes, std::string& out) {
  std::string whole = std::move(stream.held);
  stream.held.clear();
  whole.append(bytes);
  std::size_t tail = 0;
  if (is_utf8(whole, tail) && tail > 0) {
    stream.held = whole.substr(whole.size() - tail);
    whole.resize(whole.size() - tail);
  }
  put(stream, whole, out);
}

void OutputLines::add(const wire::Frame& frame, std::string& out) {
  switch (frame.type) {
    case wire::FrameType::out:
      add_bytes(out_, frame.payload, out);
      return;
    case wire::FrameType::err:
      add_bytes(err_, frame.payload, out);
      return;
    case wire::FrameType::gap:
      if (frame.payload.size() == 8) {
        out += json::serialize(
                   json::object{{"type", "gap"}, {"bytes", get_u64(frame.payload.data())}}) +
               "\n";
      }
      return;
    default:
      return;
  }
}

void OutputLines::flush(std::string& out) {
  for (Stream* stream : {&out_, &err_}) {
    put(*stream, stream->held, out);
    stream->held.clear();
  }
}

void put_bytes(json::object& object, const std::string& name, std::string_view bytes) {
  std::size_t tail = 0;
  if (is_utf8(bytes, tail) && tail == 0) {
    object[name] = bytes;
  } else {
    object[name + "Base64"] = wire::base64(bytes);
  }
}

}  // namespace firebreak::api
