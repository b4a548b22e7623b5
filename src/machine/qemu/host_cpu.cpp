#include "machine/qemu/host_cpu.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include <cpuid.h>

#include "base/text.h"
#include "machine/hash.h"

namespace firebreak::machine {
namespace {

struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero for what the CPU does not have.
Registers ask(std::uint32_t leaf, std::uint32_t part = 0) {
  Registers out;
  __get_cpuid_count(leaf, part, &out.eax, &out.ebx, &out.ecx, &out.edx);
  return out;
}

std::string name() {
  std::string text;
  for (std::uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Registers part = ask(leaf);
    for (const std::uint32_t word : {part.eax, part.ebx, part.ecx, part.edx})
      for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(word >> shift & 0xff);
  }
  text.erase(std::min(text.find('\0'), text.size()));
  while (text.ends_with(' ')) text.pop_back();
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

// Without what differs between cores (APIC ids) and what the kernel switches (OSXSAVE, OSPKE).
std::string features() {
  constexpr std::uint32_t kOsXsave = 1U << 27;
  constexpr std::uint32_t kOsPke = 1U << 4;
  const Registers vendor = ask(0);
  const Registers basic = ask(1);
  const Registers extended = ask(7);
  const Registers more = ask(7, 1);
  const Registers xsave = ask(0xd, 1);
  const Registers amd = ask(0x80000001);
  const Registers address = ask(0x80000008);
  const std::uint32_t words[] = {vendor.ebx,
                                 vendor.ecx,
                                 vendor.edx,
                                 basic.ecx & ~kOsXsave,
                                 basic.edx,
                                 extended.ebx,
                                 extended.ecx & ~kOsPke,
                                 extended.edx,
                                 more.eax,
                                 xsave.eax,
                                 amd.ecx,
                                 amd.edx,
                                 address.eax,
                                 address.ebx};
  Sha256 hash;
  hash.update(std::as_bytes(std::span(words)));
  return hash.hex().substr(0, 16);
}

}  // namespace

std::string host_cpu() {
  std::string signature;
  put_u32(signature, ask(1).eax);
  return name() + ", " + to_hex(std::as_bytes(std::span(signature))) + ", " + features();
}

}  // namespace firebreak::machine
