// What facts about a host mean for running microVMs: one line each, with the command that repairs
// it. Pure functions of facts that host_probe gathers; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "machine/cgroup.h"

namespace firebreak::machine {

enum class CheckStatus {
  ok,
  degraded,  // microVMs run, something is slower, weaker or not offered
  missing,   // no microVM runs
};
std::string_view to_string(CheckStatus status);

struct Check {
  std::string name;
  CheckStatus status = CheckStatus::ok;
  std::string text;
  std::string repair;  // a command; empty when ok
  friend bool operator==(const Check&, const Check&) = default;
};

bool any_missing(const std::vector<Check>& checks);
// For texts that come from programs: control characters become blanks, and a long one keeps its
// beginning.
std::string one_line(std::string text);

// ---- reading what the host says

// The mask behind "CapEff:" of /proc/PID/status.
std::optional<std::uint64_t> parse_effective_capabilities(std::string_view proc_status);

struct CpuFacts {
  std::string model = "unknown CPU";
  // Of its maker's virtualisation, and the kernel module for it.
  bool virtualisation = false;
  std::string kvm_module = "kvm";
};
CpuFacts parse_cpuinfo(std::string_view cpuinfo);

struct MemoryFacts {
  std::uint64_t total_kib = 0;
  std::uint64_t available_kib = 0;
};
MemoryFacts parse_meminfo(std::string_view meminfo);

// Major and minor of "6.18.44-fc" or "7.2.22 (Debian ...)"; {0, 0} when there are none.
std::pair<unsigned, unsigned> parse_version(std::string_view text);
// Name -> version of the installed ones, from "name status version" lines.
std::map<std::string, std::string> parse_packages(std::string_view dpkg_output);
std::string file_system_name(long magic);

// ---- deciding

Check check_architecture(std::string_view machine);
Check check_privileges(uid_t user, std::uint64_t effective_capabilities);
// `version` as QEMU prints it, empty when it cannot be run; `lacking`: files it needs besides.
Check check_qemu(const std::string& version, const std::vector<std::string>& lacking);
// `trial`: making and removing a group with limits.
Check check_cgroups(const CgroupSupport& support, const Result<>& trial);

struct NamespaceTrial {
  std::string name;
  int error = 0;  // errno; 0: it was made
};
Check check_namespaces(const std::vector<NamespaceTrial>& trials);

// `version` as nft prints it, empty without the program.
Check check_nftables(const std::string& version, bool library);

// `error`: errno of making a tap device in a namespace of its own; 0: it was made.
Check check_tun(int error);
// Of /proc/sys/net/ipv4/ip_forward.
struct ForwardingFacts {
  bool on = false;
  bool writable = false;
};
Check check_forwarding(const ForwardingFacts& facts);

struct DiskFacts {
  std::string path;
  std::uint64_t free_bytes = 0;
  std::string file_system;
  bool writable = false;
  bool reflink = false;
};
Check check_disk(const DiskFacts& facts);
Check check_memory(const MemoryFacts& facts);
Check check_memfd(bool sealed);
Check check_kernel(const std::string& release, bool pagemap_scan);
// `lacking`: names of the files that are not there.
Check check_guest(const std::string& directory, const std::vector<std::string>& lacking);
Check check_holder(const std::string& program, bool executable);
// nullopt: the host has no dpkg.
Check check_packages(const std::optional<std::map<std::string, std::string>>& installed);
// Those that the line above is about.
const std::vector<std::string>& runtime_packages();

}  // namespace firebreak::machine
