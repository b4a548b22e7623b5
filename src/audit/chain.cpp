#include "audit/chain.h"

#include "wire/crypto.h"

namespace firebreak::audit {

std::string first_hash() {
  return std::string(64, '0');
}

std::string next_hash(std::string_view previous, std::string_view canonical) {
  std::string text;
  text.reserve(previous.size() + canonical.size());
  text += previous;
  text += canonical;
  return wire::sha256_hex(text);
}

}  // namespace firebreak::audit
