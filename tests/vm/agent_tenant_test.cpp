// What a tenant is: its first process, its namespaces, devices and rights, its application.
#include <csignal>

#include <gmock/gmock.h>

#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;

// Any failure of the command is what is wanted.
Task<bool> refused(Machine& machine, std::string command) {
  auto result = co_await machine.agent().run(shell_spec(std::move(command)), patience());
  co_return result && result->exit.exit_code.value_or(0) != 0;
}

class AgentTenant : public AgentCase {
 protected:
  static void run(const std::function<Task<void>(Machine& machine)>& body) {
    with_clone([&](std::unique_ptr<Machine>& machine) -> Task<void> { co_await body(*machine); });
  }
};

TEST_F(AgentTenant, SeesOnlyItself) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(const std::string processes, co_await shell(machine, "exec ps -e -o pid=,comm="));
    CO_VALUE(const std::string first, co_await shell(machine, "cat /proc/1/comm"));
    const auto rows = std::ranges::count(processes, '\n');
    EXPECT_EQ(rows, 2) << processes;
    EXPECT_THAT(processes, HasSubstr("1 " + first));
    EXPECT_THAT(processes, HasSubstr(" ps\n"));
    CO_VALUE(const std::string links,
             co_await shell(machine,
                            "ls /sys/class/net; cat /sys/class/net/lo/flags;"
                            "tail -n +3 /proc/net/dev | wc -l;"
                            "ipcs -q | grep -c 0x; hostname; cat /etc/hostname"
                            " || true"));
    EXPECT_EQ(links, "lo\n0x9\n1\n0\n" + machine.id() + "\n" + machine.id() + "\n");
    CO_VALUE(const std::string shared,
             co_await shell(machine,
                            "for n in pid mnt uts ipc net cgroup; do [ $(readlink /proc/1/ns/$n) ="
                            " $(readlink /proc/self/ns/$n) ] && echo $n; done"));
    EXPECT_EQ(shared, "pid\nmnt\nuts\nipc\nnet\ncgroup\n");
    CO_VALUE(const std::string place, co_await shell(machine, "cat /proc/self/cgroup"));
    EXPECT_THAT(place, testing::MatchesRegex("0::/x[0-9]+\n"));
  });
}

TEST_F(AgentTenant, HasTheRightsOfAContainer) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(const std::string caps, co_await shell(machine, "grep ^Cap /proc/self/status"));
    EXPECT_EQ(caps,
              "CapInh:\t0000000000000000\nCapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\n"
              "CapBnd:\t00000000a80425fb\nCapAmb:\t0000000000000000\n");
    CO_VALUE(const std::string init, co_await shell(machine, "grep ^CapBnd /proc/1/status"));
    EXPECT_EQ(init, "CapBnd:\t00000000a80425fb\n");
    ExecSpec spec = shell_spec("grep ^CapEff /proc/self/status");
    spec.user = "nobody";
    CO_VALUE(auto nobody, co_await machine.agent().run(spec, patience()));
    EXPECT_EQ(nobody.out, "CapEff:\t0000000000000000\n");
    for (const std::string command :
         {"mount -t tmpfs none /mnt", "mount --bind /etc /mnt", "umount /proc", "hostname other",
          "unshare -m true", "unshare -n true", "date -s '2001-01-01'",
          "echo 1 > /proc/sys/kernel/sysrq", "echo b > /proc/sysrq-trigger",
          "mkdir /sys/fs/cgroup/x", "echo 1 > /sys/fs/cgroup/cgroup.freeze",
          "echo 0 > /sys/kernel/mm/ksm/run", "chattr +i /etc/passwd"})
      EXPECT_TRUE(co_await refused(machine, command)) << command;
    CO_VALUE(const std::string allowed,
             co_await shell(machine,
                            "chown 5:5 /tmp && su -s /bin/sh nobody -c 'id -u' && chroot / true"
                            " && echo fine"));
    EXPECT_EQ(allowed, "65534\nfine\n");
  });
}

TEST_F(AgentTenant, ReachesNoDeviceOfTheMachine) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(const std::string names, co_await shell(machine, "ls /dev"));
    EXPECT_EQ(
        names,
        "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\n"
        "zero\n");
    CO_VALUE(const std::string blocks, co_await shell(machine, "find /dev -type b | wc -l"));
    EXPECT_EQ(blocks, "0\n");
    for (const std::string where : {"/root", "/dev", "/dev/shm", "/tmp"}) {
      CO_OK(co_await shell(machine, "mknod " + where +
                                        "/disk b $(cat /sys/class/block/vda/dev | tr"
                                        " : ' ') && mknod " +
                                        where + "/mem c 1 1"));
      EXPECT_TRUE(co_await refused(machine, "head -c 1 " + where + "/disk")) << where;
      EXPECT_TRUE(co_await refused(machine, "head -c 1 " + where + "/mem")) << where;
      EXPECT_TRUE(co_await refused(machine, "echo x > " + where + "/disk")) << where;
    }
    CO_VALUE(const std::string works,
             co_await shell(machine,
                            "head -c 4 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c;"
                            "echo x > /dev/null; echo x > /dev/shm/f; cat /dev/shm/f"));
    EXPECT_EQ(works, "4\n8\nx\n");
    EXPECT_TRUE(co_await refused(machine, "echo x > /dev/full"));
  });
}

TEST_F(AgentTenant, SeesNothingOfTheKernelsInside) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(
        const std::string masked,
        co_await shell(machine,
                       "for f in kcore keys key-users timer_list; do [ ! -e /proc/$f ] ||"
                       " head -c 1 /proc/$f | wc -c; done | sort -u; ls /sys/firmware | wc -l"));
    EXPECT_EQ(masked, "0\n0\n");
    for (const std::string path :
         {"/proc/sys/kernel/core_pattern", "/proc/irq/default_smp_affinity", "/sys/power/state"})
      EXPECT_TRUE(co_await refused(machine, "echo x > " + path)) << path;
    // The agent's root is under the tenant's and must not come to light.
    EXPECT_TRUE(co_await refused(machine, "ls /init /modules /tenant"));
    CO_VALUE(const std::string escape, co_await python(machine, R"(
import os
os.makedirs('/tmp/jail', exist_ok=True)
inside = os.open('/', os.O_RDONLY)
os.chroot('/tmp/jail')
os.fchdir(inside)
for _ in range(20): os.chdir('..')
os.chroot('.')
print(os.path.exists('/init'), os.path.exists('/etc/passwd'))
)"));
    EXPECT_EQ(escape, "False True\n");
  });
}

TEST_F(AgentTenant, OrphansAreReapedAndCounted) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(auto before, co_await machine.agent().ctl_call("GET", "/resources", {}, patience()));
    CO_OK(co_await shell(machine,
                         "for i in $(seq 1 20); do (setsid sh -c 'sleep 0.05; exit 3' &); done"));
    CO_OK(co_await shell(machine,
                         "while ps -e -o ppid=,stat=,comm= | grep -q '^ *1 .*\\(Z\\|sleep\\|sh\\)';"
                         " do sleep 0.05; done"));
    CO_VALUE(const std::string keep,
             co_await machine.agent().start_exec(shell_spec("sleep 900"), patience()));
    CO_VALUE(auto after, co_await machine.agent().ctl_call("GET", "/resources", {}, patience()));
    EXPECT_EQ(before.at("pids").as_int64(), 1);
    EXPECT_GE(after.at("pids").as_int64(), 2);
    EXPECT_LE(after.at("pids").as_int64(), 3);
    EXPECT_GT(after.at("cpu_usec").as_int64(), before.at("cpu_usec").as_int64());
    const auto total = after.at("memory_total_bytes").as_int64();
    EXPECT_GT(total, 160LL << 20);
    EXPECT_LE(total, 256LL << 20);
    EXPECT_GT(after.at("memory_bytes").as_int64(), 0);
    EXPECT_LT(after.at("memory_bytes").as_int64(), total);
    EXPECT_GT(after.at("disk_used_bytes").as_int64(), 10LL << 20);
    EXPECT_LT(after.at("disk_used_bytes").as_int64(), after.at("disk_total_bytes").as_int64());
    CO_OK(co_await shell(machine, "head -c 30000000 /dev/urandom > /root/f; sync"));
    CO_VALUE(auto full, co_await machine.agent().ctl_call("GET", "/resources", {}, patience()));
    EXPECT_GE(full.at("disk_used_bytes").as_int64(),
              after.at("disk_used_bytes").as_int64() + 29'000'000);
  });
}

class AgentTenantWithAll : public AgentCase {
 protected:
  static Task<Result<std::shared_ptr<Snapshot>>> snapshot() {
    machine::TenantSpec tenant;
    tenant.all_capabilities = true;
    return world().snapshot("all", {.vcpus = 1, .memory_mib = 256}, std::move(tenant), nullptr);
  }
};

TEST_F(AgentTenantWithAll, IsRootOfItsMachine) {
  with_clone(snapshot, [](std::unique_ptr<Machine>& machine) -> Task<void> {
    CO_VALUE(const std::string caps, co_await shell(*machine, "grep ^CapEff /proc/self/status"));
    EXPECT_EQ(caps, "CapEff:\t000001ffffffffff\n");
    CO_VALUE(
        const std::string can,
        co_await shell(*machine,
                       "mount -t tmpfs none /mnt && touch /mnt/f && hostname other && hostname &&"
                       "mkdir /sys/fs/cgroup/mine && ls /dev/fuse &&"
                       "mknod /root/disk b $(tr : ' ' < /sys/class/block/vda/dev) &&"
                       "head -c 4 /root/disk | wc -c"));
    EXPECT_EQ(can, "other\n/dev/fuse\n4\n");
    CO_VALUE(const std::string processes, co_await shell(*machine, "exec ps -e -o pid="));
    EXPECT_EQ(std::ranges::count(processes, '\n'), 2) << processes;
  });
}

// Connections through an address of the machine break with a freeze that is to destroy them; those
// of the loopback live on. A second address of lo serves as an outside one.
TEST_F(AgentTenantWithAll, FreezeDestroysOutsideConnectionsOnly) {
  with_clone(snapshot, [](std::unique_ptr<Machine>& machine) -> Task<void> {
    auto& agent = machine->agent();
    const std::string program = R"(
import fcntl, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8916, b'lo:1'.ljust(16, b'\0') + struct.pack('HH4s8x', socket.AF_INET, 0, socket.inet_aton('10.9.9.9')))
listener = socket.create_server(('', 5000), family=socket.AF_INET6, dualstack_ipv6=True)
pairs = {}
for host in ('10.9.9.9', '127.0.0.1', '::1'):
    client = socket.create_connection((host, 5000))
    pairs[host] = (client, listener.accept()[0])
print('ready', flush=True)
sys.stdin.readline()
for host, ends in pairs.items():
    try:
        for a, b in (ends, ends[::-1]):
            a.sendall(b'x')
            assert b.recv(1) == b'x'
        print(host, 'alive', flush=True)
    except OSError as e:
        print(host, 'ended', flush=True)
socket.create_connection(('10.9.9.9', 5000))
print('listening', flush=True)
)";
    ExecSpec spec = argv_spec({"python3", "-c", program});
    spec.with_stdin = true;
    CO_VALUE(const std::string id, co_await agent.start_exec(spec, patience()));
    CO_VALUE(auto stream, co_await agent.exec_output(id, 0, patience()));
    std::string seen;
    CO_OK(co_await read_until(*stream, seen, "ready\n"));
    CO_VALUE(const std::uint64_t spared, co_await agent.freeze(false, false, patience()));
    EXPECT_EQ(spared, 0U);
    CO_OK(co_await agent.thaw(patience()));
    CO_VALUE(const std::uint64_t destroyed, co_await agent.freeze(true, true, patience()));
    // Both ends are in this machine: the end of one may reach the other before its turn comes.
    EXPECT_THAT(destroyed, testing::AnyOf(1U, 2U));
    CO_OK(co_await agent.thaw(patience()));
    CO_OK(co_await agent.exec_stdin(id, 0, "\n", true, patience()));
    CO_VALUE(const Output output, co_await read_all(*stream));
    EXPECT_EQ(output.out, "10.9.9.9 ended\n127.0.0.1 alive\n::1 alive\nlistening\n") << output.err;
  });
}

class AgentApplication : public AgentCase {
 protected:
  static Task<Result<std::shared_ptr<Snapshot>>> snapshot() {
    machine::AppSpec app;
    app.argv = {"python3", "-c",
                "import http.server, os, signal\n"
                "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
                "server = http.server.HTTPServer(('127.0.0.1', 8000),\n"
                "                                http.server.SimpleHTTPRequestHandler)\n"
                "print('serving', os.getpid(), os.environ['ROLE'], flush=True)\n"
                "server.serve_forever()\n"};
    app.env = {{"ROLE", "app"}};
    app.cwd = "/etc";
    machine::TenantSpec tenant;
    tenant.app_is_pid1 = true;
    tenant.app = app;
    return world().snapshot(
        "app", {.vcpus = 1, .memory_mib = 256}, std::move(tenant),
        [](Machine& machine) -> Task<Result<>> {
          FB_CO_TRY_ASSIGN(auto log, co_await machine.agent().exec_output("app", 0, patience()));
          std::string seen;
          co_return co_await read_until(*log, seen, "serving 1 app\n");
        });
  }
};

TEST_F(AgentApplication, IsPid1AndServesAndItsEndIsReported) {
  with_clone(snapshot, [](std::unique_ptr<Machine>& machine) -> Task<void> {
    auto& agent = machine->agent();
    CO_VALUE(const std::string first, co_await shell(*machine, "tr '\\0' ' ' < /proc/1/cmdline"));
    EXPECT_THAT(first, testing::StartsWith("python3 -c import http.server"));
    CO_VALUE(auto page, co_await request(*machine, "POST", "/tunnel?port=8000",
                                         "GET /hostname HTTP/1.0\r\n\r\n"));
    EXPECT_THAT(page.body, testing::StartsWith("HTTP/1.0 200 OK"));
    EXPECT_THAT(page.body, testing::EndsWith("\r\n\r\n" + machine->id() + "\n"));
    CO_VALUE(auto running, co_await agent.health(patience()));
    EXPECT_TRUE(running.app_running);
    EXPECT_EQ(running.tenant, "running");

    CO_VALUE(auto log, co_await agent.exec_output("app", 0, patience()));
    // The sender is in the namespace that ends, so it may not live to see the answer.
    (void)co_await agent.run(shell_spec("kill -TERM 1"), patience());
    CO_VALUE(const Output output, co_await read_all(*log));
    EXPECT_EQ(output.out, "serving 1 app\n");
    EXPECT_THAT(output.err, HasSubstr("\"GET /hostname HTTP/1.0\" 200"));
    EXPECT_EQ(output.exit->exit_code, 7);
    CO_VALUE(auto health, co_await agent.ctl_call("GET", "/health", {}, patience()));
    EXPECT_EQ(health.at("tenant").as_string(), "exited");
    const auto& app = health.at("app").as_object();
    EXPECT_FALSE(app.at("running").as_bool());
    EXPECT_EQ(app.at("exit_code").as_int64(), 7);
    auto late = co_await agent.run(shell_spec("true"), patience());
    CO_ASSERT(!late);
    EXPECT_EQ(late.error().code, Code::conflict);
  });
}

TEST_F(AgentApplication, CannotBeKilledFromInsideButFromOutside) {
  with_clone(snapshot, [](std::unique_ptr<Machine>& machine) -> Task<void> {
    auto& agent = machine->agent();
    CO_OK(co_await shell(*machine, "kill -9 1; kill -INT 1; test -d /proc/1"));
    CO_VALUE(auto alive, co_await agent.health(patience()));
    EXPECT_TRUE(alive.app_running);
    CO_OK(co_await agent.signal_exec("app", SIGKILL, patience()));
    CO_VALUE(const Output output, co_await output_of(*machine, "app"));
    EXPECT_EQ(output.exit->signal, SIGKILL);
    EXPECT_FALSE(output.exit->oom);
    CO_VALUE(auto health, co_await agent.ctl_call("GET", "/health", {}, patience()));
    EXPECT_EQ(health.at("tenant").as_string(), "exited");
    EXPECT_EQ(health.at("app").as_object().at("signal").as_int64(), SIGKILL);
  });
}

}  // namespace
}  // namespace firebreak::testing_support
