// Requests of a tenant's processes to the metadata service: any bytes, in pieces. Without a token
// nobody gets the credentials, and the answers do not depend on the pieces.
#include <cstdlib>
#include <string>

#include "guest/metadata_session.h"

namespace {

std::string answers(std::string_view input, std::size_t piece) {
  using firebreak::guest::Metadata;
  Metadata metadata;
  metadata.set({.instance_id = "microvm",
                .region = "r",
                .account = "1",
                .role = "execution_role",
                .credentials = "SECRET"});
  firebreak::guest::MetadataSession session(metadata);
  std::string out;
  while (!input.empty()) {
    if (!session.receive(input.substr(0, piece), {}, out)) break;
    input.remove_prefix(std::min(piece, input.size()));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string pieces = answers(input, 1UL + data[0]);
  const std::string whole = answers(input, size);
  if (pieces.find("SECRET") != std::string::npos) std::abort();
  // Tokens are random: only their place is the same.
  if (pieces.size() != whole.size()) std::abort();
  return 0;
}
