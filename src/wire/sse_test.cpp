#include "wire/sse.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

using testing::ElementsAre;

std::vector<std::string> events(std::string_view text, std::size_t piece) {
  SseReader reader;
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    EXPECT_TRUE(reader.feed(text.substr(at, piece)));
    while (auto event = reader.next()) all.push_back(*std::move(event));
  }
  return all;
}

TEST(Sse, EventsAreTheSameHoweverTheyAreCut) {
  const std::string_view text =
      ": alive\n\nevent: message\ndata: one\n\ndata:two\r\ndata: more\r\n\r\nid: "
      "3\n\ndata:\n\ndata: cut";
  for (const std::size_t piece : {1UL, 2UL, 7UL, 1000UL})
    EXPECT_THAT(events(text, piece), ElementsAre("one", "two\nmore", ""));
}

TEST(Sse, AnEventIsBounded) {
  SseReader reader;
  EXPECT_TRUE(reader.feed("data: " + std::string(SseReader::kMaxEvent - 100, 'x')));
  EXPECT_FALSE(reader.feed(std::string(200, 'x')));
}

}  // namespace
}  // namespace firebreak::wire
