#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/native/fields.h"
#include "api/native/microvm_json.h"
#include "api/native/output_json.h"
#include "base/text.h"
#include "core/request_fields.h"
#include "wire/crypto.h"

namespace firebreak::api {
namespace {

using session::Chunk;
using session::Gap;
using session::Stream;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- output

// What chunks of output become, line by line, the end included.
std::vector<std::string> lines_of(const std::vector<Chunk>& chunks) {
  OutputLines lines;
  std::string text;
  for (const Chunk& chunk : chunks) lines.add(chunk, text);
  lines.flush(text);
  std::vector<std::string> list;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty()) list.emplace_back(line);
  }
  return list;
}

std::string encoded(std::string_view stream, std::string_view bytes) {
  return R"({"type":")" + std::string(stream) + R"(","dataBase64":")" + wire::base64(bytes) +
         R"("})";
}

TEST(OutputJson, TextStaysText) {
  EXPECT_THAT(lines_of({{Stream::out, "a\n"}, {Stream::err, "b"}}),
              ElementsAre(R"({"type":"stdout","data":"a\n"})", R"({"type":"stderr","data":"b"})"));
}

TEST(OutputJson, ACharacterCutByTheTransportIsPutTogether) {
  const std::string snow = "\xe2\x98\x83";
  for (std::size_t cut = 1; cut < snow.size(); ++cut) {
    EXPECT_THAT(
        lines_of({{Stream::out, "x" + snow.substr(0, cut)}, {Stream::out, snow.substr(cut) + "y"}}),
        ElementsAre(R"({"type":"stdout","data":"x"})",
                    R"({"type":"stdout","data":")" + snow + R"(y"})"))
        << cut;
  }
  const std::string face = "\xf0\x9f\x98\x80";
  std::vector<Chunk> bytes;
  for (char c : face) bytes.push_back({Stream::out, std::string(1, c)});
  EXPECT_THAT(lines_of(bytes), ElementsAre(R"({"type":"stdout","data":")" + face + R"("})"));
}

TEST(OutputJson, TheStreamsDoNotMix) {
  EXPECT_THAT(lines_of({{Stream::out, "\xe2\x98"}, {Stream::err, "e"}, {Stream::out, "\x83"}}),
              ElementsAre(R"({"type":"stderr","data":"e"})",
                          "{\"type\":\"stdout\",\"data\":\"\xe2\x98\x83\"}"));
}

TEST(OutputJson, BytesThatAreNoTextBecomeBase64) {
  const std::vector<std::string> bad{
      "a\xff",
      "\x80",              // continues nothing
      "\xc0\xaf",          // overlong '/'
      "\xe0\x80\xaf",      // overlong, three bytes
      "\xed\xa0\x80",      // surrogate
      "\xf4\x90\x80\x80",  // above U+10FFFF
      "\xf5\x80\x80\x80",
      "\xe2(\xa1",
      "\xe2\x98(",
  };
  for (const std::string& bytes : bad)
    EXPECT_THAT(lines_of({{Stream::out, bytes}}), ElementsAre(encoded("stdout", bytes)));
}

TEST(OutputJson, AHeldBeginningThatDoesNotGoOnIsKept) {
  EXPECT_THAT(lines_of({{Stream::out, "\xe2\x98"}, {Stream::out, "!"}}),
              ElementsAre(encoded("stdout", "\xe2\x98!")));
}

TEST(OutputJson, WhatWasHeldComesOutAtTheEnd) {
  EXPECT_THAT(lines_of({{Stream::out, "a\xe2"}, {Stream::err, "\xf0\x9f"}}),
              ElementsAre(R"({"type":"stdout","data":"a"})", encoded("stdout", "\xe2"),
                          encoded("stderr", "\xf0\x9f")));
  EXPECT_THAT(lines_of({}), IsEmpty());
}

TEST(OutputJson, AGapSaysHowMuchIsMissing) {
  std::string text;
  OutputLines::add(Gap{70'000}, text);
  EXPECT_EQ(text, "{\"type\":\"gap\",\"bytes\":70000}\n");
}

TEST(OutputJson, BytesThatAreNoTextAreReplacedOneByOne) {
  EXPECT_EQ(replace_invalid_utf8("a\xe2\x98\x83\xffz\xe2\x98"),
            "a\xe2\x98\x83\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(OutputJson, MembersAreNamedByWhatTheyHold) {
  json::object object;
  put_bytes(object, "stdout", "text\xc3\xa9");
  put_bytes(object, "stderr", "cut\xc3");
  EXPECT_EQ(object.at("stdout").as_string(), "text\xc3\xa9");
  EXPECT_EQ(object.at("stderrBase64").as_string(), wire::base64("cut\xc3"));
  EXPECT_FALSE(object.contains("stderr"));
}

// ---- requests

Result<control::LaunchRequest> launch(const std::string& text) {
  auto body = parse_json_object(text);
  EXPECT_TRUE(body) << text;
  FB_TRY(check_object(*body, fields_of("POST", "/v1/microvms").body));
  return parse_launch(*body);
}

TEST(LaunchJson, ReadsEveryMember) {
  const auto request = launch(R"({"image":"base","version":"2.0","maxDurationSeconds":60,
      "payload":"p","tags":{"a":"b"},"clientToken":"t",
      "idle":{"maxIdleSeconds":30,"suspendedSeconds":90,"autoResume":false,"rule":"traffic"}})");
  ASSERT_TRUE(request) << request.error().text();
  EXPECT_EQ(request->image, "base");
  EXPECT_EQ(request->version, 2U);
  EXPECT_EQ(request->max_duration, core::Seconds(60));
  EXPECT_EQ(request->payload, "p");
  EXPECT_EQ(request->tags, (core::Tags{{"a", "b"}}));
  EXPECT_EQ(request->client_token, "t");
  const core::IdlePolicy policy{.max_idle = core::Seconds(30),
                                .suspended = core::Seconds(90),
                                .auto_resume = false,
                                .rule = core::IdleRule::traffic};
  EXPECT_EQ(request->idle, policy);
}

TEST(LaunchJson, TheImageIsEnough) {
  const auto request = launch(R"({"image":"base","idle":null})");
  ASSERT_TRUE(request) << request.error().text();
  EXPECT_FALSE(request->version);
  EXPECT_FALSE(request->idle);
  EXPECT_FALSE(request->max_duration);
}

TEST(LaunchJson, TheHashTellsRequestsApart) {
  const auto one = launch(R"({"image":"base","clientToken":"t"})");
  const auto same = launch(R"({ "image": "base", "clientToken": "t" })");
  const auto other = launch(R"({"image":"other","clientToken":"t"})");
  EXPECT_EQ(one->request_hash, same->request_hash);
  EXPECT_NE(one->request_hash, other->request_hash);
}

TEST(LaunchJson, EachMistakeIsNamed) {
  struct Case {
    std::string body;
    std::string message;
  };
  const std::string long_name(129, 'k');
  const std::vector<Case> cases{
      {R"({})", "member 'image' is missing"},
      {R"({"image":7})", "member 'image' must be a string"},
      {R"({"image":"b","version":"x"})", "member 'version' must be like \"1.0\""},
      {R"({"image":"b","version":1})", "member 'version' must be a string"},
      {R"({"image":"b","maxDurationSeconds":0})",
       "member 'maxDurationSeconds' must be 1 to 31622400"},
      {R"({"image":"b","maxDurationSeconds":31622401})",
       "member 'maxDurationSeconds' must be 1 to 31622400"},
      {R"({"image":"b","maxDurationSeconds":-1})",
       "member 'maxDurationSeconds' must be a non-negative integer"},
      {R"({"image":"b","tags":{"a":1}})", "member 'tags' must map strings to strings"},
      {R"({"image":"b","tags":{"":"v"}})",
       "member 'tags' have keys of 1 to 128 and values of at most 256 bytes"},
      {R"({"image":"b","tags":{")" + long_name + R"(":"v"}})",
       "member 'tags' have keys of 1 to 128 and values of at most 256 bytes"},
      {R"({"image":"b","clientToken":")" + long_name + R"("})",
       "member 'clientToken' has at most 128 bytes"},
      {R"({"image":"b","idle":3})", "member 'idle' must be an object or null"},
      {R"({"image":"b","idle":{}})", "member 'idle.maxIdleSeconds' is missing"},
      {R"({"image":"b","idle":{"maxIdleSeconds":1,"autoResume":1}})",
       "member 'idle.autoResume' must be true or false"},
      {R"({"image":"b","idle":{"maxIdleSeconds":1,"rule":"x"}})",
       "member 'idle.rule' must be work or traffic"},
  };
  for (const Case& c : cases) {
    const auto request = launch(c.body);
    ASSERT_FALSE(request) << c.body;
    EXPECT_EQ(request.error().code, Code::invalid) << c.body;
    EXPECT_EQ(request.error().message, c.message) << c.body;
  }
}

TEST(LaunchJson, TooManyTagsAreRefused) {
  json::object tags;
  for (int i = 0; i < 51; ++i) tags[std::to_string(i)] = "v";
  const auto request = parse_launch({{"image", "b"}, {"tags", tags}});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().message, "member 'tags' may have at most 50 entries");
}

TEST(LaunchJson, AMisspeltMemberIsRefusedWithTheNamesThereAre) {
  const auto request = launch(R"({"image":"b","maxDuration":60})");
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, Code::invalid);
  EXPECT_THAT(request.error().message,
              AllOf(HasSubstr("'maxDuration' is not known"), HasSubstr("; use image, "),
                    HasSubstr("maxDurationSeconds")));
  const auto idle = launch(R"({"image":"b","idle":{"maxIdleSeconds":1,"resume":true}})");
  ASSERT_FALSE(idle);
  EXPECT_THAT(idle.error().message, AllOf(HasSubstr("'idle.resume'"), HasSubstr("autoResume")));
}

TEST(IdleJson, HasABoundedRange) {
  for (const char* bad :
       {R"({"maxIdleSeconds":604801})", R"({"maxIdleSeconds":18446744073709551615})",
        R"({"maxIdleSeconds":1,"suspendedSeconds":604801})"}) {
    const auto policy = parse_idle(*parse_json_object(bad), "idle.");
    ASSERT_FALSE(policy) << bad;
    EXPECT_EQ(policy.error().code, Code::invalid) << bad;
  }
  const auto most = parse_idle(*parse_json_object(R"({"maxIdleSeconds":604800})"), "idle.");
  ASSERT_TRUE(most) << most.error().text();
  EXPECT_EQ(most->suspended, core::Seconds(24 * 3600));
  EXPECT_TRUE(most->auto_resume);
}

TEST(HooksJson, AMisspeltHookIsRefusedWithTheNamesThereAre) {
  const auto hooks = [](const char* text) -> Result<core::Hooks> {
    const auto object = parse_json_object(text);
    FB_TRY(check_object(*object, core::hook_fields(), "hooks."));
    return parse_hooks(*object);
  };
  EXPECT_TRUE(hooks(R"({"port":9000,"run":{"enabled":true,"timeout":3}})"));
  const auto hook = hooks(R"({"port":9000,"runs":{"enabled":true}})");
  ASSERT_FALSE(hook);
  EXPECT_THAT(hook.error().message, AllOf(HasSubstr("'hooks.runs'"), HasSubstr("; use port, ready"),
                                          HasSubstr("mean 'run'")));
  const auto member = hooks(R"({"port":9000,"run":{"enable":true}})");
  ASSERT_FALSE(member);
  EXPECT_THAT(member.error().message, AllOf(HasSubstr("'hooks.run.enable'"), HasSubstr("enabled")));
}

TEST(Launch, TakesAnEnvironmentWithinItsBounds) {
  EXPECT_EQ(launch(R"({"image":"a","env":{"A":"1"}})")->env, (core::Environment{{"A", "1"}}));
  for (const char* bad : {R"({"image":"a","env":{"A":1}})", R"({"image":"a","env":["A=1"]})",
                          R"({"image":"a","env":{"A=B":"1"}})"})
    EXPECT_FALSE(launch(bad)) << bad;
}

TEST(Launch, TakesANameAndRefusesWhatIsNone) {
  EXPECT_EQ(launch(R"({"image":"a"})")->name, "");
  EXPECT_EQ(launch(R"({"image":"a","name":"web-1"})")->name, "web-1");
  for (const char* bad : {R"({"image":"a","name":""})", R"({"image":"a","name":"Web"})",
                          R"({"image":"a","name":"microvm-1"})", R"({"image":"a","name":7})"})
    EXPECT_FALSE(launch(bad)) << bad;
}

// ---- answers

TEST(MicrovmJson, ShowsNoSecretsAndSaysWhatIsAbsent) {
  core::Microvm microvm;
  microvm.id = core::MicrovmId("microvm-1");
  microvm.tenant = core::TenantId("123456789012");
  microvm.image_name = "base";
  microvm.payload = "secret-payload";
  microvm.client_token = "secret-token";
  microvm.env = {{"TOKEN", "secret-value"}};
  microvm.state = core::MicrovmState::running;
  const json::object object = to_json(microvm, {.authority = "127.0.0.1:7443", .domain = ""});
  EXPECT_EQ(object.at("state").as_string(), "RUNNING");
  EXPECT_EQ(object.at("imageVersion").as_string(), "1.0");
  EXPECT_EQ(object.at("engine").as_string(), "qemu");
  EXPECT_EQ(object.at("isolation").as_string(), "emulated");
  for (const char* name : {"suspendedAt", "terminatedAt", "idle", "maxDurationSeconds"})
    EXPECT_TRUE(object.at(name).is_null()) << name;
  EXPECT_FALSE(object.contains("stateReason"));
  EXPECT_FALSE(object.contains("parent"));
  EXPECT_THAT(json::serialize(object), testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace firebreak::api
