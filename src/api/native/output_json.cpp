#include "api/native/output_json.h"

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

// How many bytes from `at` on fit the character that begins there.
std::size_t character_at(std::string_view bytes, std::size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  const std::size_t length = length_of(first);
  std::size_t i = 1;
  for (; i < length && at + i < bytes.size(); ++i) {
    const auto next = static_cast<unsigned char>(bytes[at + i]);
    if (i == 1 ? !second_fits(first, next) : (next & 0xc0) != 0x80) break;
  }
  return length == 0 ? 0 : i;
}

}  // namespace

bool is_utf8(std::string_view bytes, std::size_t& tail) {
  tail = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t valid = character_at(bytes, at);
    const std::size_t length = length_of(static_cast<unsigned char>(bytes[at]));
    if (length == 0) return false;
    if (valid < length) {
      if (at + valid < bytes.size()) return false;
      tail = valid;
      return true;
    }
    at += length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t valid = character_at(bytes, at);
    const std::size_t length = length_of(static_cast<unsigned char>(bytes[at]));
    if (length > 0 && valid == length) {
      text.append(bytes, at, length);
      at += length;
    } else {
      text += "\xef\xbf\xbd";
      ++at;
    }
  }
  return text;
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

void OutputLines::add(const session::Chunk& chunk, std::string& out) {
  add_bytes(chunk.stream == session::Stream::out ? out_ : err_, chunk.bytes, out);
}

void OutputLines::add(const session::Gap& gap, std::string& out) {
  out += json::serialize(json::object{{"type", "gap"}, {"bytes", gap.bytes}}) + "\n";
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
