// Strong identifiers: an image id cannot be passed where a microVM id is meant. Values; any thread.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::core {

template <class Tag>
class Id {
 public:
  Id() = default;
  explicit Id(std::string value) : value_(std::move(value)) {}
  const std::string& str() const { return value_; }
  bool empty() const { return value_.empty(); }
  friend auto operator<=>(const Id&, const Id&) = default;
  friend bool operator==(const Id&, const Id&) = default;

 private:
  std::string value_;
};

using TenantId = Id<struct TenantTag>;      // 12 digits, as an AWS account
using KeyId = Id<struct KeyTag>;            // the access key id: "AKIA" and 16 of A-Z2-7
using ImageId = Id<struct ImageTag>;        // "image-" and a UUID
using BuildId = Id<struct BuildTag>;        // a UUID
using MicrovmId = Id<struct MicrovmTag>;    // "microvm-" and a UUID
using EndpointId = Id<struct EndpointTag>;  // a UUID, unrelated to the microVM's

// Images of this tenant can be read and run by all others, and changed by none of them.
inline const TenantId kSystemTenant{std::string("000000000000")};

// Random (version 4), from the kernel's generator.
std::string new_uuid();
MicrovmId new_microvm_id();
ImageId new_image_id();
TenantId new_tenant_id();

Result<TenantId> parse_tenant_id(std::string_view text);
// Letters, digits, '-' and '_', 1 to 64: the rule of image names.
Result<> check_image_name(std::string_view name);
// Lower-case letters, digits, '-', '_' and '.', 1 to 63, the first a letter or digit; and nothing
// that could be taken for an id.
Result<> check_microvm_name(std::string_view name);

// "microvm-" and a whole UUID.
bool is_microvm_id(std::string_view text);
// The id's beginning, when the text can be one: at least four characters of the UUID, with or
// without "microvm-" before them.
std::optional<std::string> microvm_id_prefix(std::string_view text);

}  // namespace firebreak::core
