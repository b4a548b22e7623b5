// The numbers under which QEMU finds its descriptors in the jail; nothing is opened by path but
// /proc/self/fd/N. Constants.
#pragma once

namespace firebreak::machine::fd_number {

inline constexpr int kRam = 10;
inline constexpr int kQmp = 11;
inline constexpr int kCtl = 12;
inline constexpr int kData = 13;
inline constexpr int kState = 14;
inline constexpr int kKernel = 15;
inline constexpr int kInitrd = 16;
inline constexpr int kTap = 17;
inline constexpr int kShim = 18;
inline constexpr int kDisk = 20;  // bottom of the chain first

}  // namespace firebreak::machine::fd_number
