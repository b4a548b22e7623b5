// A stranger's upload as tar or zip: refused, or a tree of clean paths below directories, whose
// contents are what their hashes say, and from which a COPY takes only what is there.
#include <cstdlib>
#include <string>

#include "image/context_upload.h"
#include "image/copy_sources.h"
#include "wire/crypto.h"

namespace {

using namespace firebreak;
using namespace firebreak::image;

void check(bool good) {
  if (!good) std::abort();
}

// A fuzzer does not guess checksums; this makes every block of the input pass as a tar header.
std::string with_checksums(std::string_view archive) {
  std::string out(archive);
  for (std::size_t at = 0; at + 512 <= out.size(); at += 512) {
    out.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = at; i < at + 512; ++i) sum += static_cast<unsigned char>(out[i]);
    for (std::size_t digit = 6; digit-- > 0; sum >>= 3)
      out[at + 148 + digit] = static_cast<char>('0' + (sum & 7));
  }
  return out;
}

void check_tree(const BuildContext& context) {
  for (const auto& [path, entry] : context.entries()) {
    check(wire::clean_path(path) == path && !path.starts_with('/') && path != "." &&
          !path.starts_with(".."));
    const auto slash = path.rfind('/');
    if (slash != std::string::npos) {
      const ContextEntry* parent = context.find(path.substr(0, slash));
      check(parent != nullptr && parent->type == ContextEntry::Type::dir);
    }
    if (entry.type != ContextEntry::Type::file) continue;
    const auto content = context.read(entry, 0, 1 << 20);
    check(content && content->size() == entry.size);
    check(wire::sha256_hex(*content) == entry.sha256);
  }
}

void check_upload(std::string_view bytes) {
  static const std::string kDirectory =
      std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/dev/shm";
  const ContextLimits limits{.max_archive = 1 << 20, .max_bytes = 1 << 20, .max_file = 1 << 20};
  auto upload = ContextUpload::create(kDirectory, limits);
  check(upload.has_value());
  const std::size_t piece = 1 + bytes.size() % 700;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    if (!(*upload)->feed(bytes.substr(at, piece))) return;
  const auto context = (*upload)->finish();
  if (!context) return;
  check_tree(**context);
  (void)read_dockerfile(**context, "Dockerfile");
  const auto ignore = read_ignore_rules(**context, "Dockerfile");
  if (!ignore) return;
  (void)check_links(**context, *ignore, Deadline::in(std::chrono::minutes(1)));
  for (const char* source : {".", "*", "a", "*/*"}) {
    const auto selection = select_sources(**context, *ignore, {.sources = {source}},
                                          Deadline::in(std::chrono::minutes(1)));
    if (!selection) continue;
    for (const CopyItem& item : selection->items)
      check(item.path.empty() ? item.to.empty() : (*context)->find(item.path) != nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_upload(bytes);
  if (!bytes.starts_with("PK")) check_upload(with_checksums(bytes));
  return 0;
}
