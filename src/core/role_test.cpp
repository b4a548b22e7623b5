#include "core/role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::core {
namespace {

using testing::HasSubstr;

Result<RolePolicy> parse(std::string_view text) {
  auto object = parse_json_object(text);
  EXPECT_TRUE(object) << text;
  return parse_role_policy(*object);
}

RolePolicy policy(std::string_view text) {
  auto parsed = parse(text);
  EXPECT_TRUE(parsed) << parsed.error().text();
  return parsed ? *parsed : RolePolicy{};
}

bool allows(const RolePolicy& policy, std::string_view action, std::string_view resource,
            std::optional<std::string_view> prefix = std::nullopt) {
  return decide(policy, {action, resource, prefix}) == RoleVerdict::allowed;
}

// One statement that allows `action` on `resource`.
RolePolicy one(std::string action, std::string resource) {
  return {{{.sid = "",
            .allow = true,
            .actions = {std::move(action)},
            .resources = {std::move(resource)},
            .prefixes = {}}}};
}

TEST(Role, NothingIsAllowedByItself) {
  EXPECT_EQ(decide({}, {"s3:GetObject", "arn:aws:s3:::b/k", {}}), RoleVerdict::not_allowed);
  const RolePolicy reads = one("s3:GetObject", "arn:aws:s3:::b/*");
  EXPECT_TRUE(allows(reads, "s3:GetObject", "arn:aws:s3:::b/k"));
  EXPECT_FALSE(allows(reads, "s3:PutObject", "arn:aws:s3:::b/k"));
  EXPECT_FALSE(allows(reads, "s3:GetObject", "arn:aws:s3:::c/k"));
}

TEST(Role, ADenyBeatsEveryAllowInAnyOrder) {
  const auto mixed = policy(R"({"Statement": [
      {"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::b/secret/*"},
      {"Effect": "Allow", "Action": "*", "Resource": "*"}]})");
  EXPECT_EQ(decide(mixed, {"s3:GetObject", "arn:aws:s3:::b/secret/k", {}}), RoleVerdict::denied);
  EXPECT_TRUE(allows(mixed, "s3:GetObject", "arn:aws:s3:::b/k"));
  EXPECT_TRUE(allows(mixed, "lambda:RunMicrovm", "x"));
}

TEST(Role, PatternsMatchAsIamDoes) {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  for (const Case& c :
       {Case{"*", "", true}, Case{"*", "any/thing", true}, Case{"a*", "b", false},
        Case{"arn:aws:s3:::b/mine/*", "arn:aws:s3:::b/mine/a/b", true},
        Case{"arn:aws:s3:::b/mine/*", "arn:aws:s3:::b/mine/", true},
        Case{"arn:aws:s3:::b/mine/*", "arn:aws:s3:::b/mine", false},
        Case{"arn:aws:s3:::b/mine/*", "arn:aws:s3:::b/mine-too/k", false},
        Case{"arn:aws:s3:::b/mine/*", "arn:aws:s3:::b/MINE/k", false}, Case{"a?c", "abc", true},
        Case{"a?c", "ac", false}, Case{"a?", "a", false}, Case{"*a*b*", "xxaxxbxx", true},
        Case{"*a*b", "abab", true}, Case{"*a*b", "aba", false}, Case{"a**b", "ab", true},
        Case{"x[y]", "xy", false}, Case{"x[y]", "x[y]", true}}) {
    EXPECT_EQ(allows(one("*", c.pattern), "s3:GetObject", c.text), c.matches)
        << c.pattern << " " << c.text;
  }
  EXPECT_TRUE(allows(one("S3:get*", "*"), "s3:GetObject", "x"));
  EXPECT_FALSE(allows(one("s3:get*", "*"), "s3:PutObject", "x"));
}

TEST(Role, ManyStarsTakeNoLongTime) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "a*";
  EXPECT_FALSE(allows(one("*", pattern + "b"), "s3:GetObject", std::string(100'000, 'a')));
}

TEST(Role, AListingCanBeKeptToAPrefix) {
  const auto listing = policy(R"({"Version": "2012-10-17", "Statement": {
      "Sid": "list", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": "arn:aws:s3:::b",
      "Condition": {"StringLike": {"s3:prefix": ["mine/*"]}}}})");
  EXPECT_TRUE(allows(listing, "s3:ListBucket", "arn:aws:s3:::b", "mine/x"));
  EXPECT_FALSE(allows(listing, "s3:ListBucket", "arn:aws:s3:::b", "other/"));
  EXPECT_FALSE(allows(listing, "s3:ListBucket", "arn:aws:s3:::b", ""));
  EXPECT_FALSE(allows(listing, "s3:ListBucket", "arn:aws:s3:::b"));
  const auto equal = policy(R"({"Statement": [{"Effect": "Allow", "Action": "s3:ListBucket",
      "Resource": "*", "Condition": {"StringEquals": {"s3:prefix": ["", "mine/"]}}}]})");
  EXPECT_TRUE(allows(equal, "s3:ListBucket", "b", ""));
  EXPECT_FALSE(allows(equal, "s3:ListBucket", "b", "mine/x"));
}

TEST(Role, WhatIsWrittenIsReadAgain) {
  const auto full = policy(R"({"Statement": [
      {"Sid": "a", "Effect": "Allow", "Action": ["s3:ListBucket", "s3:Get*"], "Resource": ["x", "y"],
       "Condition": {"StringEquals": {"s3:prefix": "p/"}}},
      {"Effect": "Deny", "Action": "*", "Resource": "*"}]})");
  EXPECT_EQ(*parse_role_policy(to_json(full)), full);
  EXPECT_EQ(*parse_role_policy(to_json(RolePolicy{})), RolePolicy{});
}

TEST(Role, WhatCouldBeMeantOtherwiseIsRefused) {
  const std::string start = R"({"Statement": [{"Effect": "Allow", "Action": "s3:*", )";
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"Statement": 1})"), std::string(R"({"Statement": [1]})"),
        std::string(R"({"Statement": [], "Id": "x"})"),
        std::string(R"({"Version": "2008-10-17", "Statement": []})"),
        std::string(R"({"Statement": [{"Effect": "allow", "Action": "*", "Resource": "*"}]})"),
        std::string(R"({"Statement": [{"Action": "*", "Resource": "*"}]})"),
        std::string(R"({"Statement": [{"Effect": "Allow", "Resource": "*"}]})"),
        std::string(R"({"Statement": [{"Effect": "Allow", "Action": "s3", "Resource": "*"}]})"),
        std::string(
            R"({"Statement": [{"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}]})"),
        start + R"("Resource": []}]})", start + R"("Resource": [1]}]})",
        start + "\"Sid\": \"x\"}]}", start + R"("Resource": "arn:aws:s3:::b/${aws:username}/*"}]})",
        start + R"("Resource": "*", "Principal": "*"}]})",
        start + R"("Resource": "*", "Condition": {}}]})",
        start + R"("Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}]})",
        start + R"("Resource": "*", "Condition": {"StringLike": {"aws:x": "y"}}}]})",
        start + R"("Resource": "*", "Condition": {"StringEquals": {"s3:prefix": "a*"}}}]})"}) {
    const auto parsed = parse(text);
    EXPECT_FALSE(parsed) << text;
    if (!parsed) EXPECT_EQ(parsed.error().code, Code::invalid) << text;
  }
  const std::string large = start + "\"Resource\": \"" + std::string(1025, 'x') + "\"}]}";
  EXPECT_THAT(parse(large).error().message, HasSubstr("1024"));
  json::array many(kMaxRoleStatements + 1, json::object{});
  EXPECT_FALSE(parse_role_policy({{"Statement", many}}));
  EXPECT_THAT(
      parse_role_policy({{"Statement", json::object{}}, {"Version", std::string(11'000, 'x')}})
          .error()
          .message,
      HasSubstr("10240"));
}

TEST(Role, NamesAndArns) {
  for (const char* good : {"a", "Role_1+=,.@-", "reader"}) EXPECT_TRUE(check_role_name(good));
  for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"),
                                 std::string("a/b"), std::string("ä")})
    EXPECT_FALSE(check_role_name(bad)) << bad;
  const TenantId tenant("123456789012");
  EXPECT_EQ(role_arn(tenant, "x"), "arn:aws:iam::123456789012:role/x");
  const auto parsed = parse_role_arn("arn:aws:iam::123456789012:role/some/path/x");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->tenant, tenant);
  EXPECT_EQ(parsed->name, "x");
  for (const char* bad : {"", "x", "arn:aws:iam::1:role/x", "arn:aws:iam::123456789012:user/x",
                          "arn:aws:iam::123456789012:role/", "arn:aws:iam::123456789012:role/a b"})
    EXPECT_FALSE(parse_role_arn(bad)) << bad;
  EXPECT_EQ(new_role_id().size(), 21U);
  EXPECT_NE(new_role_id(), new_role_id());
}

}  // namespace
}  // namespace firebreak::core
