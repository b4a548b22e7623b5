#include "redact/patterns.h"

#include <algorithm>
#include <span>

#include "base/json.h"
#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::redact {
namespace {

// A form with fewer characters than this would be found in ordinary text.
constexpr std::size_t kShortestForm = 6;
constexpr std::string_view kPrivateKey = "private-key";

// The characters of base64 that the value alone decides when `before` bytes stand in front of it.
// The bits of the value begin at 8 * before; a character holds six.
std::string base64_inside(std::string_view value, std::size_t before) {
  const std::string padded = std::string(before, '\0') + std::string(value);
  const std::size_t first = (8 * before + 5) / 6;
  const std::size_t last = 8 * padded.size() / 6;
  return wire::base64(padded).substr(first, last - first);
}

std::string url_alphabet(std::string text) {
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::string upper_hex(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c;
  });
  return text;
}

std::string hex_of(std::string_view value) {
  return to_hex(std::as_bytes(std::span(value.data(), value.size())));
}

std::string json_escaped(std::string_view value) {
  std::string quoted = json::serialize(json::string(value.data(), value.size()));
  return quoted.substr(1, quoted.size() - 2);
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
}

void add_private_keys(PatternSet& set) {
  const auto name = static_cast<std::uint32_t>(set.names.size());
  set.names.emplace_back(kPrivateKey);
  for (const std::string_view kind :
       {"", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "SSH2 ENCRYPTED "}) {
    const std::string what = std::string(kind) + "PRIVATE KEY-----";
    set.patterns.push_back({"-----BEGIN " + what, name, Meaning::opens});
    set.patterns.push_back({"-----END " + what, name, Meaning::closes});
  }
  set.patterns.push_back({"-----BEGIN PGP PRIVATE KEY BLOCK-----", name, Meaning::opens});
  set.patterns.push_back({"-----END PGP PRIVATE KEY BLOCK-----", name, Meaning::closes});
}

Result<> check(const Secret& secret) {
  if (!is_name(secret.name)) {
    return fail(Code::invalid, Reason{"secret_name"}, "a secret has a name that cannot be shown",
                Repair{"use 1 to 64 letters, digits, and - _ . :"});
  }
  if (secret.value.size() < kShortestSecret || secret.value.size() > kLongestSecret) {
    return fail(
        Code::invalid, Reason{"secret_size"},
        "the secret " + secret.name + " has " + std::to_string(secret.value.size()) + " bytes",
        Repair{"a secret has " + std::to_string(kShortestSecret) + " to " +
               std::to_string(kLongestSecret) +
               " bytes: a shorter one would be found in ordinary text"});
  }
  return {};
}

}  // namespace

std::vector<std::string> forms_of(std::string_view value) {
  std::vector<std::string> forms{std::string(value)};
  const auto add = [&forms](std::string form) {
    if (form.size() >= kShortestForm && std::ranges::find(forms, form) == forms.end())
      forms.push_back(std::move(form));
  };
  for (std::size_t before = 0; before < 3; ++before) {
    const std::string inside = base64_inside(value, before);
    add(inside);
    add(url_alphabet(inside));
  }
  const std::string hex = hex_of(value);
  add(hex);
  add(upper_hex(hex));
  add(percent_encode(value, ""));
  add(percent_encode(value, "/"));
  add(json_escaped(value));
  return forms;
}

Result<PatternSet> patterns_of(const std::vector<Secret>& secrets, bool private_keys) {
  PatternSet set;
  std::size_t total = 0;
  for (const Secret& secret : secrets) {
    FB_TRY(check(secret));
    const auto name = static_cast<std::uint32_t>(set.names.size());
    set.names.push_back(secret.name);
    for (std::string& form : forms_of(secret.value)) {
      total += form.size();
      set.patterns.push_back({std::move(form), name, Meaning::secret});
    }
    if (total > kMostPatternBytes) {
      return fail(Code::exhausted, Reason{"secret_bytes"}, "the secrets are too many or too long",
                  Repair{"remove secrets that are no longer used"});
    }
  }
  if (private_keys) add_private_keys(set);
  return set;
}

}  // namespace firebreak::redact
