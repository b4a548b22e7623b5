#include "machine/agent_client.h"
#include "net/channel_test_support.h"

namespace firebreak::machine {
namespace {

// Agents that know how to interrupt one run, and those that came before.
class InterruptRun : public net::ChannelTest {
 protected:
  // What the host is told, and what it asked.
  bool interrupt(bool older, const std::string& status) {
    net::Peer peer(std::move(guest_), [&](net::Peer& self, wire::StreamId stream,
                                          const std::string& path) {
      asked_.push_back(path);
      if (path == "/contexts/c")
        return self.answer(stream, R"({"id":"c","language":"python",)" + status + "}");
      if (older && path == "/contexts/c/runs/2/interrupt")
        return self.answer(stream, R"({"code":"not_found","message":"no such operation"})", "404");
      self.answer(stream, R"({"interrupted":true})");
    });
    bool hit = false;
    run([&]() -> net::Task<void> {
      auto channel = net::Channel::start(std::move(host_));
      AgentClient agent(channel, channel);
      auto answer = co_await agent.interrupt_run("c", "2", soon());
      EXPECT_TRUE(answer) << answer.error().text();
      hit = answer.value_or(false);
      channel->close();
    });
    return hit;
  }

  std::vector<std::string> asked_;
};

TEST_F(InterruptRun, TheAgentIsToldWhichRun) {
  EXPECT_TRUE(interrupt(false, ""));
  EXPECT_EQ(asked_, std::vector<std::string>{"/contexts/c/runs/2/interrupt"});
}

TEST_F(InterruptRun, AnOlderAgentIsAskedWhichRunGoesOn) {
  EXPECT_TRUE(interrupt(true, R"("state":"busy","run":"2")"));
  EXPECT_EQ(asked_.back(), "/contexts/c/interrupt");
}

TEST_F(InterruptRun, AnotherRunOfAnOlderAgentIsLeftAlone) {
  EXPECT_FALSE(interrupt(true, R"("state":"busy","run":"3")"));
  EXPECT_EQ(asked_.back(), "/contexts/c");
}

TEST_F(InterruptRun, ARunOfAnOlderAgentThatHasEndedIsNotInterrupted) {
  EXPECT_FALSE(interrupt(true, R"("state":"idle","run":"2")"));
  EXPECT_EQ(asked_.back(), "/contexts/c");
}

// What the first frame of a run says about its interpreter, as the host tells it.
class RunState : public net::ChannelTest {
 protected:
  std::string state_of(const std::string& started) {
    std::string frames;
    wire::put_frame(wire::FrameType::started, started, frames);
    net::Peer peer(std::move(guest_), [&](net::Peer& self, wire::StreamId stream,
                                          const std::string&) { self.answer(stream, frames); });
    std::string state = "(none)";
    run([&]() -> net::Task<void> {
      auto channel = net::Channel::start(std::move(host_));
      AgentClient agent(channel, channel);
      auto stream = co_await agent.run_context("c", "1", 0, soon());
      EXPECT_TRUE(stream) << stream.error().text();
      if (stream) {
        EXPECT_TRUE(co_await (*stream)->next(soon()));
        state = (*stream)->state();
      }
      channel->close();
    });
    return state;
  }
};

TEST_F(RunState, IsPassedOn) {
  EXPECT_EQ(state_of(R"({"context":"c","run":"1","state":"restarted"})"), "restarted");
}

TEST_F(RunState, OfAnOlderAgentIsUnknown) {
  EXPECT_EQ(state_of(R"({"context":"c","run":"1"})"), "");
}

TEST_F(RunState, ThatNobodyKnowsIsNotPassedOn) {
  EXPECT_EQ(state_of(R"({"context":"c","run":"1","state":"<b>"})"), "");
}

}  // namespace
}  // namespace firebreak::machine
