// PID 1 of the machine in which vm.nested_kvm runs: loads the modules of its initramfs, takes the
// host's root file system (shared, read-only) as its own, runs the programs that its arguments
// name, prints "nested: PROGRAM: exit N" after each and powers off. Linked without libraries.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr const char* kRoot = "/tenant";  // an empty directory of the initramfs

[[noreturn]] void power_off() {
  ::sync();
  ::reboot(RB_POWER_OFF);
  for (;;) ::pause();
}

void check(bool done, const std::string& what) {
  if (done) return;
  std::printf("nested: %s: %s\n", what.c_str(), std::strerror(errno));
  power_off();
}

void load_modules() {
  std::ifstream order("/modules/order");
  std::string name;
  while (std::getline(order, name)) {
    const int fd = ::open(("/modules/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && ::syscall(SYS_finit_module, fd, "", 0) == 0, "loading " + name);
    ::close(fd);
  }
}

void mount_on(const char* type, const std::string& directory, unsigned long flags = 0,
              const char* options = "") {
  const std::string target = kRoot + directory;
  check(::mount("host", target.c_str(), type, flags, options) == 0, "mounting " + target);
}

void enter_root() {
  mount_on("9p", "", MS_RDONLY, "trans=virtio,version=9p2000.L,cache=loose,msize=512000");
  mount_on("proc", "/proc");
  mount_on("sysfs", "/sys");
  mount_on("cgroup2", "/sys/fs/cgroup");
  mount_on("devtmpfs", "/dev");
  mount_on("tmpfs", "/run");
  // The jail pivots its root, which the kernel refuses on an initramfs: hence a real mount at "/".
  check(::chdir(kRoot) == 0 && ::mount(".", "/", nullptr, MS_MOVE, nullptr) == 0 &&
            ::chroot(".") == 0 && ::chdir("/") == 0,
        "entering the root");
}

void run(char* program) {
  const pid_t child = ::fork();
  check(child >= 0, "fork");
  if (child == 0) {
    char* const argv[] = {program, nullptr};
    ::execv(program, argv);
    std::perror(program);
    ::_exit(127);
  }
  int status = 0;
  for (pid_t ended = 0; ended != child;) {
    ended = ::wait(&status);
    check(ended > 0, "wait");
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::printf("nested: %s: exit %d\n", program, code);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  load_modules();
  enter_root();
  for (int i = 1; i < argc; ++i) run(argv[i]);
  power_off();
}
