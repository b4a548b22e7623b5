#include "core/ids.h"

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::core {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

bool is_uuid_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || c == '-';
}

constexpr std::string_view kMicrovm = "microvm-";
constexpr std::size_t kUuidLength = 36;
constexpr std::size_t kLeastPrefix = 4;

}  // namespace

std::string new_uuid() {
  std::array<std::byte, 16> bytes;
  sys::random_bytes(bytes);
  bytes[6] = (bytes[6] & std::byte{0x0f}) | std::byte{0x40};
  bytes[8] = (bytes[8] & std::byte{0x3f}) | std::byte{0x80};
  std::string hex = to_hex(bytes);
  for (std::size_t at : {20, 16, 12, 8}) hex.insert(at, 1, '-');
  return hex;
}

MicrovmId new_microvm_id() {
  return MicrovmId(std::string(kMicrovm) + new_uuid());
}

ImageId new_image_id() {
  return ImageId("image-" + new_uuid());
}

TenantId new_tenant_id() {
  std::array<std::byte, 12> bytes;
  std::string digits;
  // The first digit is not 0: those ids are ours.
  while (digits.size() < 12) {
    sys::random_bytes(bytes);
    for (std::byte b : bytes) {
      int value = std::to_integer<int>(b);
      if (value >= 250 || (digits.empty() && value % 10 == 0)) continue;
      digits.push_back(static_cast<char>('0' + value % 10));
      if (digits.size() == 12) break;
    }
  }
  return TenantId(digits);
}

Result<TenantId> parse_tenant_id(std::string_view text) {
  if (text.size() != 12 || !std::ranges::all_of(text, is_digit)) {
    return fail(Code::invalid, "a tenant id is 12 digits");
  }
  return TenantId(std::string(text));
}

Result<> check_image_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, is_name_char)) {
    return fail(Code::invalid, "an image name is 1 to 64 letters, digits, '-' and '_'",
                Repair{"choose another name"});
  }
  return {};
}

Result<> check_microvm_name(std::string_view name) {
  const auto lower = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); };
  const auto inner = [lower](char c) { return lower(c) || c == '-' || c == '_' || c == '.'; };
  if (name.empty() || name.size() > 63 || !lower(name[0]) || !std::ranges::all_of(name, inner))
    return fail(Code::invalid,
                "a microVM's name is 1 to 63 lower-case letters, digits, '-', '_' and '.', and "
                "begins with a letter or digit",
                Repair{"choose another name"});
  if (name.starts_with(kMicrovm))
    return fail(Code::invalid, "a microVM's name does not begin with 'microvm-', as ids do",
                Repair{"choose another name"});
  return {};
}

bool is_microvm_id(std::string_view text) {
  if (text.size() != kMicrovm.size() + kUuidLength) return false;
  const auto prefix = microvm_id_prefix(text);
  return prefix && prefix->size() == text.size();
}

std::optional<std::string> microvm_id_prefix(std::string_view text) {
  if (text.starts_with(kMicrovm)) text.remove_prefix(kMicrovm.size());
  if (text.size() < kLeastPrefix || text.size() > kUuidLength) return std::nullopt;
  if (!std::ranges::all_of(text, is_uuid_char)) return std::nullopt;
  return std::string(kMicrovm) + std::string(text);
}

}  // namespace firebreak::core
