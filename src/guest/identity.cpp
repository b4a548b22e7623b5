#include "guest/identity.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include <linux/random.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::guest {
namespace {
constexpr std::size_t kLeastEntropy = 32;
constexpr std::size_t kMostEntropy = 64;
constexpr std::size_t kMaxHostname = 64;
constexpr std::int64_t kSecond = 1'000'000'000;
}  // namespace

Result<std::unique_ptr<Identity>> Identity::create(const std::string& dir) {
  std::unique_ptr<Identity> identity(new Identity());
  FB_TRY(sys::mkdir(dir, 0755));
  constexpr int kFlags = O_RDWR | O_CREAT | O_TRUNC;
  FB_TRY_ASSIGN(identity->random_, sys::open("/dev/random", O_RDWR));
  FB_TRY_ASSIGN(identity->machine_id_file_.fd, sys::open(dir + "/machine-id", kFlags, 0444));
  FB_TRY_ASSIGN(identity->hostname_file_.fd, sys::open(dir + "/hostname", kFlags, 0644));
  FB_TRY_ASSIGN(identity->hosts_file_.fd, sys::open(dir + "/hosts", kFlags, 0644));
  FB_TRY_ASSIGN(identity->resolver_file_.fd, sys::open(dir + "/resolv.conf", kFlags, 0644));
  FB_TRY_ASSIGN(identity->egress_file_.fd, sys::open(dir + "/egress.json", kFlags, 0444));
  FB_TRY(identity->set_machine_id(sys::random_hex(16)));
  FB_TRY(identity->set_resolver(false));
  return identity;
}

Result<> Identity::File::write(std::string_view text) {
  FB_TRY(sys::pwrite_all(fd.get(), std::as_bytes(std::span(text)), 0));
  if (text.size() < size && ::ftruncate(fd.get(), static_cast<off_t>(text.size())) != 0)
    return fail_errno("truncate");
  size = text.size();
  return {};
}

Result<> Identity::set_clock(std::int64_t realtime_ns) const {
  timespec now{};
  now.tv_sec = realtime_ns / kSecond;
  now.tv_nsec = realtime_ns % kSecond;
  if (::clock_settime(CLOCK_REALTIME, &now) != 0) return fail_errno("set the clock");
  return {};
}

Result<> Identity::add_entropy(std::span<const std::byte> bytes) const {
  if (bytes.size() < kLeastEntropy || bytes.size() > kMostEntropy)
    return fail(Code::invalid, "entropy must be 32 to 64 bytes");
  struct {  // rand_pool_info, with room for the bytes
    int entropy_count;
    int buf_size;
    std::byte bytes[kMostEntropy];
  } request{};
  request.entropy_count = static_cast<int>(bytes.size()) * 8;
  request.buf_size = static_cast<int>(bytes.size());
  std::ranges::copy(bytes, request.bytes);
  if (::ioctl(random_.get(), RNDADDENTROPY, &request) != 0) return fail_errno("add entropy");
  if (::ioctl(random_.get(), RNDRESEEDCRNG) != 0) return fail_errno("reseed");
  return {};
}

Result<> Identity::set_hostname(const std::string& name, bool in_kernel) {
  if (name.empty() || name.size() > kMaxHostname ||
      name.find_first_of(std::string_view("\0\n\r\t /", 6)) != std::string::npos)
    return fail(Code::invalid, "not a host name");
  if (in_kernel && ::sethostname(name.data(), name.size()) != 0) return fail_errno("set host name");
  if (name == hostname_) return {};
  FB_TRY(hostname_file_.write(name + "\n"));
  FB_TRY(hosts_file_.write("127.0.0.1 localhost\n127.0.1.1 " + name +
                           "\n::1 localhost ip6-localhost ip6-loopback\n"));
  hostname_ = name;
  return {};
}

Result<> Identity::set_machine_id(const std::string& hex) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (hex.size() != 32 || !std::ranges::all_of(hex, digit))
    return fail(Code::invalid, "machine_id must be 32 lower-case hex digits");
  FB_TRY(machine_id_file_.write(hex + "\n"));
  machine_id_ = hex;
  return {};
}

Result<> Identity::set_resolver(bool network) {
  return resolver_file_.write(network
                                  ? "nameserver 10.107.0.1\noptions edns0 timeout:5 attempts:2\n"
                                  : "# This microVM has no network.\n");
}

Result<> Identity::set_egress_summary(std::string_view text) {
  return egress_file_.write(text);
}

Result<std::int64_t> realtime_ns() {
  timespec now{};
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return fail_errno("read the clock");
  return std::int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

}  // namespace firebreak::guest
