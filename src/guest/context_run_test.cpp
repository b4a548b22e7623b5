#include "guest/context_run.h"

#include <gtest/gtest.h>

namespace firebreak::guest {
namespace {

class Counter final : public RunView {
 public:
  int outputs = 0;
  int replaced = 0;

 private:
  void on_run_output() override { ++outputs; }
  void on_run_replaced() override { ++replaced; }
};

std::string all(const ContextRun& run, std::uint64_t offset = 0) {
  std::string text;
  for (;;) {
    const std::string_view piece = run.read(offset + text.size(), 1000);
    if (piece.empty()) return text;
    text += piece;
  }
}

TEST(RunOfAContext, HoldsFramesByOffsetAndEndsWithDone) {
  RingBudget budget(1 << 20);
  ContextRun run("1", budget, nullptr);
  EXPECT_GE(run.room(5), 5U);
  run.put(wire::FrameType::out, "hello");
  run.finish("{}");
  std::string want;
  wire::put_frame(wire::FrameType::out, "hello", want);
  wire::put_frame(wire::FrameType::done, "{}", want);
  EXPECT_EQ(run.end(), want.size());
  // A reader may have been cut anywhere, also inside of a frame and of the last one.
  for (std::size_t at = 0; at <= want.size(); ++at) EXPECT_EQ(all(run, at), want.substr(at));
}

TEST(RunOfAContext, IsFullUntilAReaderTookSomethingAndCanStillEnd) {
  RingBudget budget(4 << 20);
  int asked = 0;
  ContextRun run("1", budget, [&] { ++asked; });
  const std::string block(32 * 1024, 'x');
  std::size_t put = 0;
  while (const std::size_t room = run.room(block.size())) {
    run.put(wire::FrameType::out, std::string_view(block).substr(0, room));
    put += room;
  }
  EXPECT_GT(put, 400U * 1024);
  EXPECT_LT(put, 600U * 1024);
  run.sent(100'000);
  EXPECT_EQ(asked, 1);
  EXPECT_GT(run.room(block.size()), 0U);
  const std::uint64_t before = run.end();
  run.finish(R"({"status":"timeout"})");
  EXPECT_GT(run.end(), before);
  run.sent(run.end());
  EXPECT_EQ(asked, 1) << "a finished run needs nothing more of its context";
}

TEST(RunOfAContext, OneReaderReplacesTheOther) {
  RingBudget budget(1 << 20);
  ContextRun run("1", budget, nullptr);
  Counter first;
  Counter second;
  run.set_view(&first);
  run.set_view(&second);
  EXPECT_EQ(first.replaced, 1);
  run.clear_view(&first);
  run.room(1);
  run.put(wire::FrameType::out, "x");
  EXPECT_EQ(first.outputs, 0);
  EXPECT_EQ(second.outputs, 1);
  run.clear_view(&second);
  run.finish("{}");
  EXPECT_EQ(second.outputs, 1);
}

}  // namespace
}  // namespace firebreak::guest
