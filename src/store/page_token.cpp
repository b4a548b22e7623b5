#include "store/page_token.h"

#include <limits>
#include <span>
#include <string_view>

#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::store {

namespace {

constexpr std::size_t kSealSize = 32;  // hex digits: half a SHA-256
constexpr std::size_t kLongestToken = 1024;

// Lengths are part of it, so that no two lists of texts read the same.
std::string seal(const std::vector<std::string>& scope, std::string_view position) {
  std::string text;
  for (const std::string& part : scope) {
    put_u64(text, part.size());
    text += part;
  }
  text += position;
  return wire::sha256_hex(text).substr(0, kSealSize);
}

}  // namespace

std::string make_page_token(const std::vector<std::string>& scope, const Position& last) {
  std::string position;
  put_u64(position, static_cast<std::uint64_t>(core::to_unix_ms(last.time)));
  position += last.id;
  return seal(scope, position) + to_hex(std::as_bytes(std::span(position)));
}

Result<Position> read_page_token(const std::vector<std::string>& scope, const std::string& token) {
  if (token.empty()) return Position{core::Time::max(), ""};
  auto bad = [] {
    return fail(Code::invalid, "the page token is not of this listing and filter",
                Repair{"begin again without one"});
  };
  if (token.size() <= kSealSize || token.size() > kLongestToken) return bad();
  auto bytes = from_hex(std::string_view(token).substr(kSealSize));
  if (!bytes || bytes->size() < sizeof(std::uint64_t)) return bad();
  const std::string position(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (token.substr(0, kSealSize) != seal(scope, position)) return bad();
  return Position{core::from_unix_ms(static_cast<std::int64_t>(get_u64(position.data()))),
                  position.substr(sizeof(std::uint64_t))};
}

Result<> check_page_size(std::uint32_t size) {
  if (size < 1 || size > 1000) return fail(Code::invalid, "a page has 1 to 1000 entries");
  return {};
}

}  // namespace firebreak::store
