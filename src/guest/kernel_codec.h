// Messages of a context's kernel (docs/agent-protocol.md "data: contexts"). The kernel belongs to
// the tenant, so what it sends is checked and bounded. Sans-I/O; data thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::guest {

enum class KernelMessage : char { ready = 'R', begin = 'B', item = 'I', error = 'E', done = 'D' };

// A message or, if it is long, the next piece of one.
struct KernelPiece {
  KernelMessage type = KernelMessage::ready;
  bool first = true;
  bool last = true;
  std::string bytes;
};

inline constexpr std::size_t kKernelPiece = 48 * 1024UL;
inline constexpr std::size_t kMaxKernelItem = 32 << 20;
inline constexpr std::size_t kMaxKernelError = 4 << 20;
inline constexpr std::size_t kMaxKernelNote = 4096;  // of all other messages

// Collects received bytes; next() gives pieces of kKernelPiece bytes, the last one of a message
// shorter. Holds no more than was fed since next() returned nothing, and one piece. A message that
// breaks the rules is Code::invalid, for good.
class KernelDecoder {
 public:
  void feed(std::string_view bytes);
  Result<std::optional<KernelPiece>> next();

 private:
  Result<bool> take_header();

  std::string buffer_;
  std::size_t at_ = 0;
  bool failed_ = false;
  bool inside_ = false;  // a header was taken and its message is not over
  bool first_ = true;
  KernelMessage type_ = KernelMessage::ready;
  std::size_t left_ = 0;
};

// A message to the kernel: its script, then code to run.
void put_kernel_message(std::string_view bytes, std::string& out);

}  // namespace firebreak::guest
