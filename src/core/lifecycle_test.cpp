#include "core/lifecycle.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "base/sys.h"
#include "core/model.h"

namespace firebreak::core {
namespace {

using enum MicrovmState;

constexpr std::array kAll{pending, running, suspending, suspended, terminating, terminated};

std::set<MicrovmState> reachable(MicrovmState from) {
  std::set<MicrovmState> seen{from};
  for (std::size_t before = 0; before != seen.size();) {
    before = seen.size();
    for (const Transition& t : kTransitions) {
      if (seen.contains(t.from)) seen.insert(t.to);
    }
  }
  return seen;
}

TEST(Lifecycle, EveryStateIsReachedFromPending) {
  EXPECT_EQ(reachable(pending).size(), kAll.size());
}

TEST(Lifecycle, EveryStateCanEnd) {
  for (MicrovmState state : kAll) EXPECT_TRUE(reachable(state).contains(terminated));
}

TEST(Lifecycle, TerminatedIsFinalAndTerminatingLeadsOnlyThere) {
  EXPECT_EQ(reachable(terminated), std::set{terminated});
  EXPECT_EQ(reachable(terminating), (std::set{terminating, terminated}));
}

TEST(Lifecycle, NothingReturnsToPendingOrStaysByATransition) {
  for (MicrovmState state : kAll) {
    EXPECT_FALSE(allowed(state, pending));
    EXPECT_FALSE(allowed(state, state));
  }
}

TEST(Lifecycle, EveryTransitionIsThereOnceAndHasACause) {
  std::set<std::pair<MicrovmState, MicrovmState>> seen;
  for (const Transition& t : kTransitions) {
    EXPECT_TRUE(seen.emplace(t.from, t.to).second);
    EXPECT_FALSE(t.cause.empty());
    EXPECT_EQ(t.cause.find('|'), std::string_view::npos);
  }
}

TEST(Lifecycle, NamesReadBack) {
  for (MicrovmState state : kAll) EXPECT_EQ(parse_microvm_state(to_string(state)), state);
  for (Intent intent : {Intent::none, Intent::launch, Intent::suspend, Intent::resume, Intent::fork,
                        Intent::terminate}) {
    EXPECT_EQ(parse_intent(to_string(intent)), intent);
  }
  EXPECT_EQ(parse_microvm_state("running"), std::nullopt);
  EXPECT_EQ(parse_intent(""), std::nullopt);
}

TEST(Lifecycle, EnteringAStateSetsItsTimes) {
  Microvm microvm;
  const Time t = from_unix_ms(1000);
  EXPECT_EQ(enter(microvm, suspended, t).error().code, Code::conflict);
  EXPECT_EQ(microvm, Microvm{});
  ASSERT_TRUE(enter(microvm, running, t));
  ASSERT_TRUE(enter(microvm, suspending, t + Seconds(1)));
  ASSERT_TRUE(enter(microvm, suspended, t + Seconds(2)));
  EXPECT_EQ(microvm.suspended_at, t + Seconds(2));
  EXPECT_EQ(aging_of(microvm).suspended_at, t + Seconds(2));
  ASSERT_TRUE(enter(microvm, running, t + Seconds(3)));
  EXPECT_EQ(microvm.suspended_at, std::nullopt);
  EXPECT_EQ(aging_of(microvm).state_since, t + Seconds(3));
  ASSERT_TRUE(enter(microvm, terminating, t + Seconds(4)));
  EXPECT_EQ(microvm.terminated, std::nullopt);
  ASSERT_TRUE(enter(microvm, terminated, t + Seconds(5)));
  EXPECT_EQ(microvm.terminated, t + Seconds(5));
}

TEST(Lifecycle, TheDocumentedTableIsThisOne) {
  const std::string path = FIREBREAK_SOURCE_DIR "/docs/lifecycle.md";
  constexpr std::string_view kBegin = "<!-- transitions -->\n";
  constexpr std::string_view kEnd = "<!-- /transitions -->\n";
  auto text = sys::read_file(path);
  ASSERT_TRUE(text) << text.error().text();
  const std::size_t begin = text->find(kBegin);
  const std::size_t end = text->find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end);
  std::string expected = *text;
  const std::size_t table = begin + kBegin.size();
  expected.replace(table, end - table, transitions_markdown());
  if (std::getenv("FIREBREAK_UPDATE_DOCS") != nullptr) {
    ASSERT_TRUE(sys::replace_file(path, expected, 0644));
    return;
  }
  EXPECT_EQ(*text, expected) << "run this test with FIREBREAK_UPDATE_DOCS=1 to write the table";
}

}  // namespace
}  // namespace firebreak::core
