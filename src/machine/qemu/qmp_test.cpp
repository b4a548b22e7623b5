// The monitor's client against a monitor made of a socket pair: honest, slow, wrong and gone.
#include "machine/qemu/qmp.h"

#include <functional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

using namespace std::chrono_literals;
using net::Task;
using testing::HasSubstr;

constexpr std::string_view kGreeting =
    R"({"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}})"
    "\r\n";

Deadline soon() {
  return Deadline::in(10s);
}

class QmpTest : public testing::Test {
 protected:
  void SetUp() override {
    Qmp::Socket ours(io_);
    net::asio::local::connect_pair(ours, monitor_);
    qmp_ = Qmp::start(std::move(ours));
    hello_ = read_command();
    EXPECT_EQ(hello_.at("execute").as_string(), "qmp_capabilities");
  }

  // Commands are sent before submit() returns, so reading here does not wait for the loop.
  json::object read_command() {
    while (pending_.find('\n') == std::string::npos) {
      char buffer[4096];
      boost::system::error_code ec;
      const std::size_t n = monitor_.read_some(net::asio::buffer(buffer), ec);
      if (ec) return {};
      pending_.append(buffer, n);
    }
    const auto at = pending_.find('\n');
    auto command = parse_json_object(std::string_view(pending_).substr(0, at));
    pending_.erase(0, at + 1);
    EXPECT_TRUE(command);
    return command.value_or(json::object());
  }
  void send(std::string_view bytes) { net::asio::write(monitor_, net::asio::buffer(bytes)); }
  void answer(const json::object& command, json::value value) {
    send(json::serialize(json::object{{"return", std::move(value)}, {"id", command.at("id")}}) +
         "\r\n");
  }
  void greet() {
    send(kGreeting);
    answer(hello_, json::object());
  }

  void run(const std::function<Task<void>()>& body) {
    bool done = false;
    net::asio::co_spawn(io_, body(), [&](std::exception_ptr e) {
      done = true;
      if (e) std::rethrow_exception(e);
    });
    io_.restart();
    while (!done) io_.run_one();
  }
  Result<json::value> answer_to(std::uint64_t id, Deadline deadline) {
    Result<json::value> result;
    run([&]() -> Task<void> { result = co_await qmp_->answer(id, deadline); });
    return result;
  }

  net::asio::io_context io_;
  Qmp::Socket monitor_{io_};
  std::shared_ptr<Qmp> qmp_;
  json::object hello_;
  std::string pending_;
};

TEST_F(QmpTest, GreetsAndAnswers) {
  greet();
  run([&]() -> Task<void> {
    EXPECT_TRUE(co_await qmp_->ready(soon()));
    EXPECT_TRUE(co_await qmp_->ready(soon()));
  });
  const auto id = qmp_->submit("query-status", {{"a", 1}});
  ASSERT_TRUE(id);
  const json::object command = read_command();
  EXPECT_EQ(command.at("execute").as_string(), "query-status");
  EXPECT_EQ(command.at("arguments").at("a").as_int64(), 1);
  answer(command, {{"status", "running"}});
  const auto result = answer_to(*id, soon());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->at("status").as_string(), "running");
}

TEST_F(QmpTest, AnswersMayComeInAnyOrderWithEventsBetween) {
  greet();
  std::vector<std::uint64_t> ids;
  std::vector<json::object> commands;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(*qmp_->submit("c" + std::to_string(i), {}));
    commands.push_back(read_command());
  }
  for (int i = 4; i >= 0; --i) {
    send(R"({"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"})"
         "\r\n");
    answer(commands[static_cast<std::size_t>(i)], i);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto result = answer_to(ids[i], soon());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->as_int64(), static_cast<std::int64_t>(i));
  }
}

TEST_F(QmpTest, EventsReachTheirHandlerUntilTheEnd) {
  greet();
  std::vector<std::string> seen;
  qmp_->on_event([&](std::string_view name, const json::object& data) {
    seen.push_back(std::string(name) + " " + json::serialize(data));
  });
  const auto id = qmp_->submit("a", {});
  send(R"({"event": "BLOCK_IO_ERROR", "data": {"action": "stop", "nospace": true}})"
       "\r\n"
       R"({"event": "RESUME", "data": 7})"
       "\r\n");
  answer(read_command(), 1);
  ASSERT_TRUE(answer_to(*id, soon()));
  EXPECT_THAT(seen, testing::ElementsAre(R"(BLOCK_IO_ERROR {"action":"stop","nospace":true})",
                                         "RESUME {}"));
  send(R"({"event": "STOP"})"
       "\r\n");
  qmp_->close();
  io_.restart();
  io_.poll();
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(QmpTest, AnswersArriveInPieces) {
  greet();
  const auto id = qmp_->submit("a", {});
  const std::string text =
      json::serialize(json::object{{"return", std::string(40'000, 'x')}, {"id", *id}}) + "\n";
  run([&]() -> Task<void> {
    for (std::size_t at = 0; at < text.size(); at += 1777) {
      co_await net::asio::async_write(monitor_,
                                      net::asio::buffer(std::string_view(text).substr(at, 1777)),
                                      net::asio::use_awaitable);
      co_await net::asio::post(io_, net::asio::use_awaitable);
    }
    const auto result = co_await qmp_->answer(*id, soon());
    EXPECT_TRUE(result && result->as_string().size() == 40'000);
  });
}

TEST_F(QmpTest, ErrorAnswerIsAnErrorAndTheMonitorGoesOn) {
  greet();
  run([&]() -> Task<void> {
    const auto id = qmp_->submit("bad", {});
    (void)read_command();
    send(R"({"id": )" + std::to_string(*id) +
         R"(, "error": {"class": "GenericError", "desc": "no such thing"}})"
         "\n");
    const auto result = co_await qmp_->answer(*id, soon());
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::internal);
    EXPECT_THAT(result.error().message, HasSubstr("no such thing"));
  });
  const auto next = qmp_->submit("good", {});
  ASSERT_TRUE(next);
  answer(read_command(), true);
  EXPECT_TRUE(answer_to(*next, soon()));
}

TEST_F(QmpTest, DescriptorTravelsWithItsCommand) {
  auto [read_end, write_end] = *sys::pipe();
  ASSERT_TRUE(qmp_->submit("getfd", {{"fdname", "state"}}, write_end.get()));
  char bytes[4096];
  iovec part{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(monitor_.native_handle(), &header, 0);
  ASSERT_GT(n, 0);
  EXPECT_THAT(std::string(bytes, static_cast<std::size_t>(n)), HasSubstr("getfd"));
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  ASSERT_NE(rights, nullptr);
  UniqueFd passed;
  int number = -1;
  std::memcpy(&number, CMSG_DATA(rights), sizeof number);
  passed.reset(number);
  write_end.reset();
  ASSERT_TRUE(sys::write_all(passed.get(), "x"));
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 1);
}

TEST_F(QmpTest, SilenceIsATimeoutAndALateAnswerIsDropped) {
  greet();
  const auto id = qmp_->submit("slow", {});
  const json::object slow = read_command();
  const auto result = answer_to(*id, Deadline::in(20ms));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::timeout);
  answer(slow, true);
  const auto next = qmp_->submit("next", {});
  answer(read_command(), 5);
  const auto after = answer_to(*next, soon());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->as_int64(), 5);
}

TEST_F(QmpTest, NeverGreetingIsATimeout) {
  run([&]() -> Task<void> {
    const auto ready = co_await qmp_->ready(Deadline::in(20ms));
    EXPECT_FALSE(ready);
    EXPECT_EQ(ready.error().code, Code::timeout);
  });
}

TEST_F(QmpTest, CloseEndsEveryWaitWithTheSameError) {
  greet();
  const auto first = qmp_->submit("a", {});
  const auto second = qmp_->submit("b", {});
  monitor_.close();
  for (const auto& id : {first, second}) {
    const auto result = answer_to(*id, soon());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::unavailable);
  }
  EXPECT_EQ(qmp_->submit("c", {}).error().code, Code::unavailable);
  EXPECT_EQ(qmp_->post("c", {}).error().code, Code::unavailable);
}

TEST_F(QmpTest, OurOwnCloseEndsAWaitInProgress) {
  greet();
  run([&]() -> Task<void> {
    const auto id = qmp_->submit("a", {});
    net::asio::post(io_, [this] { qmp_->close(); });
    const auto result = co_await qmp_->answer(*id, soon());
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::unavailable);
  });
}

TEST_F(QmpTest, GarbageEndsTheConnection) {
  for (const char* garbage :
       {"not JSON\n", "[]\n", "\"x\"\n", "{\"id\":\n", "\xff\xfe\n", "{}{}\n"}) {
    Qmp::Socket ours(io_);
    Qmp::Socket theirs(io_);
    net::asio::local::connect_pair(ours, theirs);
    qmp_ = Qmp::start(std::move(ours));
    const auto id = qmp_->submit("a", {});
    net::asio::write(theirs, net::asio::buffer(std::string_view(garbage)));
    const auto result = answer_to(*id, soon());
    ASSERT_FALSE(result) << garbage;
    EXPECT_EQ(result.error().code, Code::guest) << garbage;
  }
}

TEST_F(QmpTest, AnswersNobodyAskedForAreIgnored) {
  greet();
  send(
      "\r\n{}\n{\"id\": 999999, \"return\": 1}\n{\"id\": \"x\", \"return\": 1}\n{\"id\": -1, "
      "\"return\": 1}\n"
      "{\"event\": 7}\n{\"return\": {}}\n");
  const auto id = qmp_->submit("a", {});
  answer(read_command(), 1);
  EXPECT_TRUE(answer_to(*id, soon()));
}

TEST_F(QmpTest, EndlessLineIsCutOff) {
  greet();
  const auto id = qmp_->submit("a", {});
  const std::string flood(8 << 20, 'x');
  std::size_t sent = 0;
  net::asio::async_write(monitor_, net::asio::buffer(flood),
                         [&](boost::system::error_code, std::size_t n) { sent = n; });
  const auto result = answer_to(*id, soon());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::guest);
  EXPECT_THAT(result.error().message, HasSubstr("too long"));
  io_.restart();
  io_.poll();
  EXPECT_LT(sent, flood.size());
}

TEST_F(QmpTest, AMonitorThatReadsNothingIsGivenUp) {
  Result<std::uint64_t> last{0};
  for (int i = 0; last && i < 100'000; ++i)
    last = qmp_->submit("query-status", {{"filler", std::string(500, 'x')}});
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Code::unavailable);
}

TEST(QmpLine, PartsOfALine) {
  const auto event = Qmp::parse_line(R"({"event": "STOP", "timestamp": {}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event, "STOP");
  EXPECT_FALSE(event->id);
  const auto big = Qmp::parse_line(R"({"id": 18446744073709551615, "return": []})");
  ASSERT_TRUE(big);
  EXPECT_EQ(big->id, ~0ULL);
  const auto error = Qmp::parse_line(R"({"id": 3, "error": 7})");
  ASSERT_TRUE(error);
  ASSERT_FALSE(error->answer);
  EXPECT_EQ(error->answer.error().message, "unknown error");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "{\"a\":";
  EXPECT_FALSE(Qmp::parse_line(deep));
}

}  // namespace
}  // namespace firebreak::machine
