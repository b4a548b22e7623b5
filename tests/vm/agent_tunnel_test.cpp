// Tunnels to servers of a tenant, and freezing what runs in it.
#include <sstream>

#include <gmock/gmock.h>

#include "base/text.h"
#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

class AgentTunnel : public AgentCase {
 protected:
  static void run(const std::function<Task<void>(Machine& machine)>& body) {
    with_clone([&](std::unique_ptr<Machine>& machine) -> Task<void> { co_await body(*machine); });
  }
};

// 7000 sends back what it gets. 7001 answers with the number of bytes it got, after their end. 7002
// says "first" and ends its side at once, then writes to its log what it gets. 7003 keeps its side
// open when the other has ended.
constexpr const char* kServers = R"(
import socket, sys, threading
def echo(c):
    while data := c.recv(65536): c.sendall(data)
def count(c):
    n = 0
    while data := c.recv(65536): n += len(data)
    c.sendall(b'%d' % n)
def first(c):
    c.sendall(b'first'); c.shutdown(socket.SHUT_WR)
    got = b''
    while data := c.recv(65536): got += data
    print('got', got.decode(), flush=True)
def hold(c):
    while c.recv(65536): pass
    print('held', flush=True)
    threading.Event().wait()
def serve(listener, handle):
    def one(c):
        with c: handle(c)
    while True: threading.Thread(target=one, args=(listener.accept()[0],)).start()
for port, handle in ((7000, echo), (7001, count), (7002, first), (7003, hold)):
    for host, family in (('127.0.0.1', socket.AF_INET), ('::1', socket.AF_INET6)):
        listener = socket.create_server((host, port), family=family, backlog=64)
        threading.Thread(target=serve, args=(listener, handle)).start()
print('ready', flush=True)
)";

Task<Result<std::unique_ptr<ExecStream>>> start_servers(Machine& machine) {
  FB_CO_TRY_ASSIGN(const std::string id, co_await machine.agent().start_exec(
                                             argv_spec({"python3", "-c", kServers}), patience()));
  FB_CO_TRY_ASSIGN(auto log, co_await machine.agent().exec_output(id, 0, patience()));
  std::string seen;
  FB_CO_TRY(co_await read_until(*log, seen, "ready\n"));
  co_return std::move(log);
}

// Writes and reads at the same time, as a tunnel's two sides do.
Task<Result<std::string>> exchange(Machine& machine, std::string target, std::string_view bytes) {
  FB_CO_TRY_ASSIGN(auto stream, machine.agent().data_stream("POST", std::move(target), false));
  Result<> written;
  Result<std::string> received;
  std::vector<std::function<Task<void>()>> both;
  both.emplace_back([&]() -> Task<void> {
    written = co_await stream->write(bytes, patience());
    stream->finish();
  });
  both.emplace_back([&]() -> Task<void> {
    std::string all;
    for (;;) {
      auto some = co_await stream->read(patience());
      if (!some || some->empty()) {
        received = some ? Result<std::string>(std::move(all)) : some;
        co_return;
      }
      all += *some;
    }
  });
  co_await all_of(std::move(both));
  FB_CO_TRY(written);
  co_return received;
}

TEST_F(AgentTunnel, BothLoopbackAddresses) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(auto servers, co_await start_servers(machine));
    for (const std::string host : {"", "&host=127.0.0.1", "&host=::1"}) {
      CO_VALUE(const std::string back,
               co_await exchange(machine, "/tunnel?port=7000" + host, "hello " + host));
      EXPECT_EQ(back, "hello " + host);
    }
    CO_VALUE(auto closed, co_await request(machine, "POST", "/tunnel?port=7999"));
    EXPECT_EQ(closed.status, 502);
    EXPECT_EQ(code_of(closed), Code::unavailable);
    CO_VALUE(auto closed6, co_await request(machine, "POST", "/tunnel?port=7999&host=::1"));
    EXPECT_EQ(code_of(closed6), Code::unavailable);
    for (const std::string wrong :
         {"port=0", "port=65536", "port=x", "port=80&host=10.0.0.1", ""}) {
      CO_VALUE(auto reply, co_await request(machine, "POST", "/tunnel?" + wrong));
      EXPECT_EQ(code_of(reply), Code::invalid) << wrong;
    }
  });
}

TEST_F(AgentTunnel, EachSideEndsAlone) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(auto log, co_await start_servers(machine));
    CO_VALUE(const std::string counted,
             co_await exchange(machine, "/tunnel?port=7001", std::string(100'000, 'x')));
    EXPECT_EQ(counted, "100000");

    CO_VALUE(auto stream, machine.agent().data_stream("POST", "/tunnel?port=7002", false));
    CO_VALUE(const std::string first, co_await stream->read(patience()));
    EXPECT_EQ(first, "first");
    CO_VALUE(const std::string end, co_await stream->read(patience()));
    EXPECT_EQ(end, "");
    CO_OK(co_await stream->write("after their end", patience()));
    stream->finish();
    std::string seen;
    CO_OK(co_await read_until(*log, seen, "got after their end\n"));
  });
}

// The agent runs before everything else in its machine: a loop in it would starve the tenant.
TEST_F(AgentTunnel, WhatWaitsCostsNothing) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    CO_VALUE(auto log, co_await start_servers(machine));
    CO_VALUE(auto ended_here, agent.data_stream("POST", "/tunnel?port=7003", false));
    CO_OK(co_await ended_here->write("x", patience()));
    ended_here->finish();
    std::string seen;
    CO_OK(co_await read_until(*log, seen, "held\n"));
    CO_VALUE(auto ended_there, agent.data_stream("POST", "/tunnel?port=7002", false));
    CO_VALUE(std::string bytes, co_await ended_there->read(patience()));
    CO_VALUE(bytes, co_await ended_there->read(patience()));
    EXPECT_EQ(bytes, "");
    CO_VALUE(const std::string full, co_await agent.start_exec(argv_spec({"yes"}), patience()));
    CO_VALUE(auto unread, co_await agent.exec_output(full, 0, patience()));

    const std::string sample = "awk '/^cpu /{print $5 + $6, $2 + $3 + $4 + $7 + $8}' /proc/stat;";
    CO_OK(co_await shell(machine, "sleep 1"));  // until the unread output has stopped its program
    CO_VALUE(const std::string out, co_await shell(machine, sample + "sleep 1;" + sample));
    std::istringstream in(out);
    long idle = 0, busy = 0, idle_after = 0, busy_after = 0;
    in >> idle >> busy >> idle_after >> busy_after;
    EXPECT_GT(idle_after - idle, busy_after - busy) << out;
  });
}

TEST_F(AgentTunnel, MuchBothWays) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(auto servers, co_await start_servers(machine));
    const std::string bytes = random_text(8 << 20, 8);
    CO_VALUE(const std::string back, co_await exchange(machine, "/tunnel?port=7000", bytes));
    EXPECT_EQ(back.size(), bytes.size());
    EXPECT_EQ(sha256(back), sha256(bytes));
  });
}

TEST_F(AgentTunnel, TwentyAtOnceAndOneThatIsNotRead) {
  run([](Machine& machine) -> Task<void> {
    CO_VALUE(auto servers, co_await start_servers(machine));
    // Its answers fill every buffer on the way; that must be nobody else's problem.
    CO_VALUE(auto stuck, machine.agent().data_stream("POST", "/tunnel?port=7000", false));
    auto full = co_await stuck->write(std::string(8 << 20, 's'), in_seconds(2));
    std::vector<std::function<Task<void>()>> tasks;
    for (unsigned i = 0; i < 20; ++i) {
      tasks.emplace_back([&machine, i]() -> Task<void> {
        const std::string bytes = random_text(100'000, i);
        CO_VALUE(const std::string back, co_await exchange(machine, "/tunnel?port=7000", bytes));
        EXPECT_TRUE(back == bytes);
      });
    }
    co_await all_of(std::move(tasks));
    EXPECT_FALSE(full);
    stuck.reset();
    CO_VALUE(const std::string after, co_await exchange(machine, "/tunnel?port=7001", "12345"));
    EXPECT_EQ(after, "5");
  });
}

TEST_F(AgentTunnel, FreezeStopsTheTenantAndThawContinues) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    const ExecSpec spec = shell_spec("i=0; while :; do i=$((i + 1)); echo $i; sleep 0.01; done");
    CO_VALUE(const std::string id, co_await agent.start_exec(spec, patience()));
    CO_VALUE(auto stream, co_await agent.exec_output(id, 0, patience()));
    std::string seen;
    CO_OK(co_await read_until(*stream, seen, "\n20\n"));
    const auto offset = [&]() -> Task<std::int64_t> {
      auto status = co_await agent.data_call("GET", "/execs/" + id, {}, patience());
      co_return status ? status->at("offset").as_int64() : -1;
    };
    CO_OK(co_await agent.freeze(false, false, patience()));
    CO_VALUE(auto health, co_await agent.health(in_seconds(10)));
    EXPECT_EQ(health.tenant, "frozen");
    const std::int64_t stopped = co_await offset();
    co_await pause(std::chrono::milliseconds(500));
    EXPECT_EQ(co_await offset(), stopped);
    auto frozen = co_await agent.run(shell_spec("true"), patience());
    CO_ASSERT(!frozen);
    EXPECT_EQ(frozen.error().code, Code::conflict);
    CO_OK(co_await agent.health(in_seconds(10)));
    CO_OK(co_await agent.thaw(patience()));
    while (static_cast<std::int64_t>(seen.size()) < stopped + 40) {
      CO_VALUE(auto frame, co_await stream->next(patience()));
      CO_ASSERT(frame && frame->type == wire::FrameType::out);
      seen += frame->payload;
    }
    EXPECT_TRUE(numbers(100'000).starts_with(seen));
    auto awake = co_await agent.wake({"other", std::string(32, 'a'), 9, true}, patience());
    CO_ASSERT(!awake);
    EXPECT_EQ(awake.error().code, Code::conflict);
  });
}

}  // namespace
}  // namespace firebreak::testing_support
