#include "api/logs/log_events.h"

#include <gtest/gtest.h>

namespace firebreak::api {
namespace {

TEST(LogEvents, PatternsOfWords) {
  EXPECT_TRUE(*matches("", "anything"));
  EXPECT_TRUE(*matches("ERROR", "an ERROR here"));
  EXPECT_FALSE(*matches("ERROR", "an error here"));
  EXPECT_TRUE(*matches("one two", "two and one"));
  EXPECT_FALSE(*matches("one two", "one"));
  EXPECT_TRUE(*matches("\"two words\"", "here two words are"));
  EXPECT_FALSE(*matches("\"two words\"", "two other words"));
  EXPECT_FALSE(*matches("one -two", "one two"));
  EXPECT_TRUE(*matches("?one ?two", "two"));
  EXPECT_FALSE(*matches("?one ?two", "three"));
  for (const char* other : {"{ $.a = 1 }", "[a, b]", "%a.*%"}) EXPECT_FALSE(matches(other, "a"));
}

TEST(LogEvents, GroupAndStreamAreAwsOwnUnlessNamed) {
  core::Microvm microvm;
  microvm.id = core::MicrovmId("microvm-1");
  microvm.image_name = "demo";
  microvm.image_version = 3;
  microvm.started = core::from_unix_ms(784887151007);
  auto stream = log_stream_of(microvm);
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->group, "/aws/lambda-microvms/demo");
  EXPECT_EQ(stream->name, "1994/11/15[3.0]microvm-1");
  microvm.config = R"({"lambda":{"logging":{"cloudWatch":{"logGroup":"mine"}}}})";
  EXPECT_EQ(log_stream_of(microvm)->group, "mine");
  EXPECT_EQ(log_stream_of(microvm)->name, "1994/11/15[3.0]microvm-1");
  microvm.config = R"({"lambda":{"logging":{"disabled":{}}}})";
  EXPECT_FALSE(log_stream_of(microvm));
}

}  // namespace
}  // namespace firebreak::api
