// Where the fields of a tar header are, and the limits of both directions. For tar_reader.cpp and
// tar_writer.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "wire/tar.h"

namespace firebreak::wire::tar {

struct Field {
  std::size_t at;
  std::size_t length;
};
inline constexpr Field kName{0, 100};
inline constexpr Field kMode{100, 8};
inline constexpr Field kUid{108, 8};
inline constexpr Field kGid{116, 8};
inline constexpr Field kSize{124, 12};
inline constexpr Field kMtime{136, 12};
inline constexpr Field kChecksum{148, 8};
inline constexpr std::size_t kTypeAt = 156;
inline constexpr Field kLink{157, 100};
inline constexpr Field kMagic{257, 8};
inline constexpr Field kPrefix{345, 155};
inline constexpr std::string_view kUstarMagic{"ustar\0", 6};

inline constexpr std::int64_t kNanos = 1'000'000'000;
// Times are cut to what 64 bits of nanoseconds hold, with room for a fraction.
inline constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int64_t>::max() / kNanos - 1;
inline constexpr std::uint64_t kMaxSize = std::numeric_limits<std::int64_t>::max();

inline std::size_t padding_of(std::uint64_t size) {
  return (kTarBlock - size % kTarBlock) % kTarBlock;
}

}  // namespace firebreak::wire::tar
