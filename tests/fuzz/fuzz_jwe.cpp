// Tokens: any text is refused or opens to what was sealed; a token of ours with one changed byte
// never opens.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "wire/jwe.h"

namespace {

using namespace firebreak::wire;

const SealingKey kKey{std::byte{7}, std::byte{9}};

const SealingKey* find(std::string_view id) {
  return id == "fuzz" ? &kKey : nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (jwe_decrypt(input, find) && input.size() > kMaxJwe) std::abort();
  if (const auto raw = from_base64url(input); raw && base64url(*raw) != input) std::abort();
  if (size < 2) return 0;
  auto token = jwe_encrypt("fuzz", kKey, input.substr(1));
  if (!token) return 0;
  const auto back = jwe_decrypt(*token, find);
  if (!back || *back != input.substr(1)) std::abort();
  const std::string intact = *token;
  (*token)[data[0] % token->size()] = static_cast<char>(data[1]);
  if (*token != intact && jwe_decrypt(*token, find)) std::abort();
  return 0;
}
