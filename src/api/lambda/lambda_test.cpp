// Tables, names and records of the Lambda façade, without a server.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/aws/aws_call.h"
#include "api/lambda/lambda_json.h"
#include "api/lambda/operations.h"

namespace firebreak::api::lambda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ArnScope kPlace{"eu-1", "123456789012"};

Operation operation(std::string_view name, bool extensions = false) {
  for (const Operation& each : operations(extensions)) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << name;
  return {};
}

std::vector<std::string> wrong(std::string_view name, const char* input, bool extensions = false) {
  return violations(operation(name, extensions).input, json::parse(input).as_object());
}

// ---- tables

TEST(Shapes, EveryOperationHasItsOwnPlace) {
  std::set<std::string> places;
  for (const Operation& each : operations())
    places.insert(std::string(each.method) + " " + std::string(each.path));
  EXPECT_EQ(operations().size(), 24U);
  EXPECT_EQ(places.size(), 24U);
}

TEST(Shapes, TellEverythingThatIsWrong) {
  EXPECT_THAT(
      wrong("RunMicrovm", R"({"maximumDurationInSeconds": 0, "runHookPayload": 5})"),
      ElementsAre(
          "Value at 'imageIdentifier' failed to satisfy constraint: Member must not be null",
          "Value at 'runHookPayload' failed to satisfy constraint: Member must be a string",
          "Value at 'maximumDurationInSeconds' failed to satisfy constraint: Member must "
          "have value greater than or equal to 1"));
  EXPECT_EQ(validation_message({"a"}), "1 validation error detected: a");
  EXPECT_EQ(validation_message({"a", "b"}), "2 validation errors detected: a; b");
}

TEST(Shapes, UnknownAndNullMembersPass) {
  EXPECT_THAT(wrong("RunMicrovm", R"({"imageIdentifier":"x","newer":{"a":1},"idlePolicy":null})"),
              IsEmpty());
}

TEST(Shapes, LengthsAreOfCharacters) {
  EXPECT_EQ(text_length("h\xC3\xA9\xE2\x82\xAC"), 3U);
  std::string payload;
  for (int i = 0; i < 4096; ++i) payload += "\xC3\xA9";
  json::object input{{"imageIdentifier", "x"}, {"runHookPayload", payload}};
  EXPECT_THAT(violations(operation("RunMicrovm").input, input), IsEmpty());
  input["runHookPayload"] = payload + "x";
  EXPECT_EQ(violations(operation("RunMicrovm").input, input).size(), 1U);
}

TEST(Shapes, AUnionHasOneMember) {
  const std::string start = R"({"imageIdentifier":"x","logging":)";
  EXPECT_THAT(wrong("RunMicrovm", (start + R"({"disabled":{}}})").c_str()), IsEmpty());
  for (const char* logging : {"{}", R"({"disabled":{},"cloudWatch":{}})", R"({"other":{}})"}) {
    EXPECT_THAT(wrong("RunMicrovm", (start + logging + "}").c_str()),
                ElementsAre(HasSubstr("exactly one of its members")));
  }
}

TEST(Shapes, PathsNameListElementsFromOne) {
  EXPECT_THAT(wrong("CreateMicrovmAuthToken",
                    R"({"microvmIdentifier":"x","expirationInMinutes":1,
                        "allowedPorts":[{"port":1},{"range":{"startPort":0,"endPort":1}}]})"),
              ElementsAre(HasSubstr("'allowedPorts.2.member.range.startPort'")));
}

TEST(Shapes, RolesAndResources) {
  const auto role = [](const std::string& arn) {
    const json::object input{{"imageIdentifier", "x"}, {"executionRoleArn", arn}};
    return violations(operation("RunMicrovm").input, input).empty();
  };
  EXPECT_TRUE(role("arn:aws:iam::123456789012:role/a/b"));
  EXPECT_TRUE(role("arn:aws-cn:iam::123456789012:role/name"));
  for (const char* bad :
       {"arn:aws:iam::12345678901:role/name", "arn:aws:iam::123456789012:user/name",
        "arn:aws:iam::123456789012:role/", "arn:aws:sts::123456789012:role/name",
        "arn:aws:x:iam::123456789012:role/name"})
    EXPECT_FALSE(role(bad)) << bad;
  EXPECT_THAT(wrong("ListTags", R"({"Resource":"arn:aws:lambda:r:123456789012:queue:x"})"),
              ElementsAre(HasSubstr("regular expression pattern")));
}

TEST(Shapes, ExtensionsFreeRunsOnly) {
  const char* longer = R"({"imageIdentifier":"x","maximumDurationInSeconds":100000,
      "idlePolicy":{"maxIdleDurationSeconds":1,"suspendedDurationSeconds":0,"autoResumeEnabled":true}})";
  EXPECT_EQ(wrong("RunMicrovm", longer).size(), 2U);
  EXPECT_THAT(wrong("RunMicrovm", longer, true), IsEmpty());
}

// ---- names

TEST(Names, Images) {
  auto own = parse_image_identifier(kPlace, "arn:aws:lambda:eu-1:123456789012:microvm-image:demo");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->name, "demo");
  EXPECT_FALSE(own->managed);
  EXPECT_TRUE(parse_image_identifier(kPlace, "arn:aws:lambda:eu-1:aws:microvm-image:x")->managed);
  EXPECT_EQ(parse_image_identifier(kPlace, "bare_name-1")->name, "bare_name-1");
  auto foreign = parse_image_identifier(kPlace, "arn:aws:lambda:eu-1:999999999999:microvm-image:x");
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().name, "AccessDeniedException");
  for (const char* bad : {"arn:aws:lambda:eu-1:123456789012:microvm-image/demo", "a b", "",
                          "arn:aws:lambda:eu-2:123456789012:microvm-image:demo",
                          "arn:aws:s3:eu-1:123456789012:microvm-image:demo",
                          "arn:aws:lambda:eu-1:123456789012:microvm-image:a:b"}) {
    auto refused = parse_image_identifier(kPlace, bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().name, "ValidationException") << bad;
  }
}

TEST(Names, Connectors) {
  const auto name = [](const std::string& arn, Direction direction) {
    auto parsed = parse_connector(kPlace, arn, direction);
    return parsed ? parsed->name : parsed.error().name;
  };
  const std::string managed = "arn:aws:lambda:eu-1:aws:network-connector:aws-network-connector:";
  EXPECT_EQ(name(managed + "HTTP_INGRESS", Direction::ingress), "HTTP_INGRESS");
  EXPECT_EQ(name(managed + "HTTP_INGRESS", Direction::egress), "ValidationException");
  EXPECT_EQ(name(managed + "NO_EGRESS", Direction::egress), "NO_EGRESS");
  EXPECT_EQ(name(managed + "SOME", Direction::egress), "ValidationException");
  EXPECT_EQ(name("INTERNET_EGRESS", Direction::egress), "ValidationException");
  const std::string own = "arn:aws:lambda:eu-1:123456789012:network-connector:vpc";
  EXPECT_EQ(name(own, Direction::egress), "vpc");
  EXPECT_EQ(name(own, Direction::ingress), "ValidationException");
  EXPECT_EQ(name("arn:aws:lambda:eu-1:999999999999:network-connector:vpc", Direction::egress),
            "AccessDeniedException");
  EXPECT_EQ(connector_arn(kPlace, connector_named("vpc")), own);
  EXPECT_EQ(connector_arn(kPlace, connector_named("NO_EGRESS")), managed + "NO_EGRESS");
}

// ---- records

TEST(LambdaJson, TheSameRequestHasTheSameText) {
  const auto text = [](const char* input) {
    return canonical_json(json::parse(input).as_object());
  };
  EXPECT_EQ(text(R"({"b":[1,{"y":2,"x":1}],"a":"z","clientToken":"1"})"),
            text(R"({"clientToken":"2","a":"z","b":[1,{"x":1,"y":2}]})"));
  EXPECT_NE(text(R"({"a":[1,2]})"), text(R"({"a":[2,1]})"));
  EXPECT_NE(text(R"({"a":"1"})"), text(R"({"a":1})"));
}

TEST(LambdaJson, HooksThereAndBack) {
  const json::object sent = json::parse(R"({"port":9000,
      "microvmImageHooks":{"ready":"ENABLED","readyTimeoutInSeconds":7},
      "microvmHooks":{"run":"ENABLED","suspend":"DISABLED"}})")
                                .as_object();
  auto hooks = read_hooks(sent);
  ASSERT_TRUE(hooks);
  EXPECT_EQ(hooks->timeout(core::Hook::ready).count(), 7);
  EXPECT_EQ(hooks->timeout(core::Hook::run).count(), 1);
  EXPECT_FALSE((*hooks)[core::Hook::suspend].enabled);
  const json::value told = json::parse(json::serialize(hooks_json(*hooks)));
  auto back = read_hooks(told.as_object());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->port, 9000);
  EXPECT_EQ(back->timeout(core::Hook::ready).count(), 7);
  EXPECT_TRUE((*back)[core::Hook::run].enabled);
  EXPECT_FALSE(read_hooks(json::parse(R"({"microvmHooks":{"run":"ENABLED"}})").as_object()));
}

TEST(LambdaJson, AVersionShowsWhatItWasOrderedWithAndNoSecretsOfOurs) {
  core::Image image;
  image.tenant = core::TenantId("123456789012");
  image.name = "demo";
  core::ImageVersion version{.number = 2, .memory_mib = 512};
  version.config =
      R"({"application":true,"lambda":{"description":"d","clientToken":"t","requestHash":"h"}})";
  const json::object shown = version_json(kPlace, image, version);
  EXPECT_EQ(shown.at("description"), "d");
  EXPECT_EQ(shown.at("imageVersion"), "2.0");
  EXPECT_EQ(shown.at("imageArn"), "arn:aws:lambda:eu-1:123456789012:microvm-image:demo");
  EXPECT_FALSE(shown.contains("clientToken"));
  EXPECT_FALSE(shown.contains("requestHash"));
  EXPECT_TRUE(kept("not json").empty());
}

TEST(AwsJson, TimesArePlainNumbers) {
  EXPECT_EQ(aws_json(json::object{{"t", epoch_seconds(core::from_unix_ms(1757949542026))},
                                  {"l", json::array{true, nullptr, "a\"b", 7}}}),
            R"({"t":1757949542.026,"l":[true,null,"a\"b",7]})");
  EXPECT_EQ(http_date(core::from_unix_ms(784887151000)), "Tue, 15 Nov 1994 08:12:31 GMT");
  EXPECT_EQ(iso_date(core::from_unix_ms(784887151007)), "1994-11-15T08:12:31.007Z");
  EXPECT_EQ(xml_escape("<a&\"\x01\r>"), "&lt;a&amp;&quot;&#13;&gt;");
}

}  // namespace
}  // namespace firebreak::api::lambda
