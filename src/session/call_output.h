// What one governed call printed: the part that the caller is shown, all of it as far as it is
// kept, and what is recorded of it. Holds bounded memory however much is printed. One executor.
#pragma once

#include <cstdint>
#include <string>

#include "machine/hash.h"
#include "session/output.h"

namespace firebreak::session {

// As many bytes of the text as fit, without a character cut in two.
std::string cut_text(const std::string& text, std::uint64_t limit);

class PrintedStream {
 public:
  // Kept of each stream; beyond it only size and hash are known.
  static constexpr std::size_t kMostKept = 16UL << 20;

  void add(std::string_view bytes);
  std::uint64_t total() const { return total_; }
  const std::string& kept() const { return kept_; }
  std::string shown(std::uint64_t limit) const { return cut_text(kept_, limit); }
  // Of everything that was printed, in hexadecimal; once.
  std::string hash() { return hash_.hex(); }

 private:
  std::string kept_;
  std::uint64_t total_ = 0;
  machine::Sha256 hash_;
};

struct CallOutput {
  PrintedStream out;
  PrintedStream err;
  void add(const Chunk& chunk) { (chunk.stream == Stream::out ? out : err).add(chunk.bytes); }
};

}  // namespace firebreak::session
