// Any request: reading its signature never fails in another way than refusing, and a claim that was
// read can be checked, where nobody guesses the secret.
#include <cstdlib>

#include "base/text.h"
#include "wire/sigv4.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak::wire;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto lines = firebreak::split(input, '\n');
  Headers headers;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto at = lines[i].find(':');
    if (at == std::string_view::npos) continue;
    headers.push_back({std::string(lines[i].substr(0, at)), std::string(lines[i].substr(at + 1))});
  }
  const SigV4Request request{"GET", lines[0], "host", headers};
  const auto claim = read_sigv4(request);
  if (!claim) return 0;
  if (amz_date(claim->signed_at) != claim->timestamp) std::abort();
  if (check_sigv4(request, *claim, "secret", claim->payload_hash, claim->signed_at)) std::abort();
  return 0;
}
