#include "wire/link.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>

#include "base/text.h"

namespace firebreak::wire {
namespace {

constexpr std::string_view kWord = "\xF5\x46\x42\x52\x4B\xF8\x0D\x9C";
constexpr std::size_t kPrefix = kWord.size() - 1;
constexpr char kStuffing = '\0';
constexpr std::size_t kSigned = 2 + 2 + sizeof(Nonce);  // of a sync's body, what the crc covers
constexpr std::size_t kBody = kSigned + 4;
static_assert(kWord.find(kWord[0], 1) == std::string_view::npos,
              "a failed match restarts at the word's first byte only");

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Follows the sync word through bytes[at, end), `matched` bytes of it having gone by. Stops behind
// the byte that completes the seven-byte prefix, or at the end.
std::size_t scan(const char* bytes, std::size_t at, std::size_t end, std::size_t& matched) {
  while (at < end) {
    if (matched == 0) {
      const void* hit = std::memchr(bytes + at, kWord[0], end - at);
      if (hit == nullptr) return end;
      at = static_cast<std::size_t>(static_cast<const char*>(hit) - bytes) + 1;
      matched = 1;
    } else if (bytes[at] == kWord[matched]) {
      ++at;
      if (++matched == kPrefix) return at;
    } else {
      matched = 0;
    }
  }
  return end;
}

}  // namespace

void LinkEncoder::sync(const Sync& sync, std::string& out) {
  out.append(kWord);
  matched_ = 0;
  std::string body;
  put_u16(body, sync.version);
  put_u16(body, 0);
  body.append(reinterpret_cast<const char*>(sync.nonce.data()), sync.nonce.size());
  put_u32(body, crc_of(body));
  stuff(body, out);
}

void LinkEncoder::data(std::string_view bytes, std::string& out) {
  stuff(bytes, out);
}

void LinkEncoder::stuff(std::string_view bytes, std::string& out) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t stop = scan(bytes.data(), at, bytes.size(), matched_);
    out.append(bytes, at, stop - at);
    at = stop;
    if (matched_ == kPrefix) {
      out.push_back(kStuffing);
      matched_ = 0;
    }
  }
}

void LinkDecoder::feed(std::span<char> in, Sink& sink) {
  const std::size_t size = in.size();
  std::size_t at = 0;
  while (at < size) {
    if (matched_ == kPrefix) {
      after_prefix(in[at++]);
      continue;
    }
    const std::size_t end = mode_ == Mode::body ? std::min(size, at + kBody - body_.size()) : size;
    const std::size_t stop = scan(in.data(), at, end, matched_);
    const std::string_view run(in.data() + at, stop - at);
    if (mode_ == Mode::body) {
      body_.append(run);
      if (body_.size() == kBody) finish_body(sink);
    } else if (mode_ == Mode::data) {
      // A whole prefix is data only if the stuffing byte follows. A prefix at the very end is
      // delivered at once, before it is known what follows: nothing need follow for long, and a
      // peer may be waiting for the answer to just these bytes.
      const bool data = matched_ < kPrefix || stop == size || in[stop] == kStuffing;
      const std::string_view out =
          data ? run : run.substr(0, run.size() - std::min(run.size(), kPrefix));
      if (!out.empty()) sink.on_data(out);
    }
    at = stop;
  }
}

void LinkDecoder::after_prefix(char byte) {
  matched_ = 0;
  if (byte == kStuffing) return;
  if (byte == kWord[kPrefix]) {
    mode_ = Mode::body;
    body_.clear();
    return;
  }
  // The sender was cut here; this may already be the start of its successor's sync.
  mode_ = Mode::discard;
  if (byte == kWord[0]) matched_ = 1;
}

void LinkDecoder::finish_body(Sink& sink) {
  const char* body = body_.data();
  if (crc_of(std::string_view(body, kSigned)) != get_u32(body + kSigned)) {
    mode_ = Mode::discard;
    return;
  }
  mode_ = Mode::data;
  Sync sync;
  sync.version = get_u16(body);
  std::memcpy(sync.nonce.data(), body + 4, sync.nonce.size());
  sink.on_sync(sync);
}

}  // namespace firebreak::wire
