#include "guest/metadata_listener.h"

#include <array>
#include <cstddef>

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace firebreak::guest {
namespace {

const InterfaceAddress kAddress{"169.254.169.254", 32};
constexpr in_addr_t kAddressNumber = 0xA9FEA9FE;
constexpr std::uint16_t kPort = 80;
// A server of the tenant that listens on every address must find port 80 free, so the socket itself
// has a port that nobody wants, and a program of the kernel's leads connections to it.
constexpr std::uint16_t kOwnPort = 1;
constexpr int kBacklog = 64;

Result<UniqueFd> bpf(bpf_cmd command, bpf_attr& attributes, std::string_view doing) {
  const long fd = ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
  if (fd < 0) return fail_errno(doing);
  return UniqueFd(static_cast<int>(fd));
}

constexpr bpf_insn instruction(int code, int to, int from, int offset, std::int32_t value) {
  return {.code = static_cast<__u8>(code),
          .dst_reg = static_cast<__u8>(to & 0xf),
          .src_reg = static_cast<__u8>(from & 0xf),
          .off = static_cast<__s16>(offset),
          .imm = value};
}
constexpr bpf_insn load_word(int to, int from, int offset) {
  return instruction(BPF_LDX | BPF_MEM | BPF_W, to, from, offset, 0);
}
constexpr bpf_insn unless_equal(int what, std::uint32_t value, int skip) {
  return instruction(BPF_JMP32 | BPF_JNE | BPF_K, what, 0, skip, static_cast<std::int32_t>(value));
}
constexpr bpf_insn copy(int to, int from) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
constexpr bpf_insn set(int to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn call(bpf_func_id function) {
  return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, static_cast<std::int32_t>(function));
}

// Called for each new connection of the namespace: TCP over IPv4 to our address and port goes to
// the socket in the map; everything else is looked up as usual.
Result<UniqueFd> load_redirect(int map) {
  const std::array program{
      copy(BPF_REG_6, BPF_REG_1),
      load_word(BPF_REG_2, BPF_REG_6, offsetof(bpf_sk_lookup, family)),
      unless_equal(BPF_REG_2, AF_INET, 20),
      load_word(BPF_REG_2, BPF_REG_6, offsetof(bpf_sk_lookup, protocol)),
      unless_equal(BPF_REG_2, IPPROTO_TCP, 18),
      load_word(BPF_REG_2, BPF_REG_6, offsetof(bpf_sk_lookup, local_port)),
      unless_equal(BPF_REG_2, kPort, 16),
      load_word(BPF_REG_2, BPF_REG_6, offsetof(bpf_sk_lookup, local_ip4)),
      unless_equal(BPF_REG_2, htonl(kAddressNumber), 14),
      instruction(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0),  // the map's key
      copy(BPF_REG_2, BPF_REG_10),
      // Parts of these codes are zero, but named.  NOLINTBEGIN(misc-redundant-expression)
      instruction(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
      instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
      // NOLINTEND(misc-redundant-expression)
      instruction(0, 0, 0, 0, 0),  // the other half of the one before
      call(BPF_FUNC_map_lookup_elem),
      instruction(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 7, 0),
      copy(BPF_REG_7, BPF_REG_0),
      copy(BPF_REG_1, BPF_REG_6),
      copy(BPF_REG_2, BPF_REG_7),
      set(BPF_REG_3, 0),
      call(BPF_FUNC_sk_assign),
      copy(BPF_REG_1, BPF_REG_7),
      call(BPF_FUNC_sk_release),
      set(BPF_REG_0, SK_PASS),
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
  attributes.expected_attach_type = BPF_SK_LOOKUP;
  attributes.insns = reinterpret_cast<std::uint64_t>(program.data());
  attributes.insn_cnt = program.size();
  attributes.license = reinterpret_cast<std::uint64_t>("");
  return bpf(BPF_PROG_LOAD, attributes, "load the metadata redirect");
}

Result<UniqueFd> attach_redirect(int netns, int socket) {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_SOCKMAP;
  attributes.key_size = sizeof(std::uint32_t);
  attributes.value_size = sizeof(std::uint64_t);
  attributes.max_entries = 1;
  FB_TRY_ASSIGN(const UniqueFd map, bpf(BPF_MAP_CREATE, attributes, "make the metadata map"));
  const std::uint32_t key = 0;
  const auto value = static_cast<std::uint64_t>(socket);
  attributes = {};
  attributes.map_fd = static_cast<__u32>(map.get());
  attributes.key = reinterpret_cast<std::uint64_t>(&key);
  attributes.value = reinterpret_cast<std::uint64_t>(&value);
  if (::syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attributes, sizeof attributes) < 0)
    return fail_errno("fill the metadata map");
  FB_TRY_ASSIGN(const UniqueFd program, load_redirect(map.get()));
  attributes = {};
  attributes.link_create.prog_fd = static_cast<__u32>(program.get());
  attributes.link_create.target_fd = static_cast<__u32>(netns);
  attributes.link_create.attach_type = BPF_SK_LOOKUP;
  return bpf(BPF_LINK_CREATE, attributes, "attach the metadata redirect");
}

}  // namespace

Result<MetadataListener> MetadataListener::open(int netns, const Links& links) {
  FB_TRY(links.add_address("lo", kAddress));
  MetadataListener listener;
  listener.socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.socket) return fail_errno("socket");
  const int fd = listener.socket.get();
  const int on = 1;
  // The loopback device may not be up yet.
  if (::setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on) != 0)
    return fail_errno("setsockopt");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kOwnPort);
  address.sin_addr.s_addr = htonl(kAddressNumber);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("bind the metadata service");
  if (::listen(fd, kBacklog) != 0) return fail_errno("listen");
  FB_TRY_ASSIGN(listener.redirect, attach_redirect(netns, fd));
  return listener;
}

}  // namespace firebreak::guest
