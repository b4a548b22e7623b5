#include "image/image_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

LayoutReference layout(std::string_view text) {
  const auto found = parse_layout_reference(text);
  EXPECT_TRUE(found && *found) << text;
  return found && *found ? **found : LayoutReference{};
}

TEST(ImageReference, ALayoutHasAPathAndMaybeAName) {
  EXPECT_EQ(layout("oci:layout"), (LayoutReference{.path = "layout", .name = ""}));
  EXPECT_EQ(layout("oci:./a/b/:v1"), (LayoutReference{.path = "a/b", .name = "v1"}));
  EXPECT_EQ(layout("oci-archive:x.tar:app:1.0"),
            (LayoutReference{.archive = true, .path = "x.tar", .name = "app:1.0"}));
  EXPECT_EQ(layout("oci:/srv/x:1"), (LayoutReference{.path = "/srv/x", .name = "1"}));
  EXPECT_TRUE(layout("oci:/srv/x").absolute());
  EXPECT_EQ(layout("oci:a:b/c:d"), (LayoutReference{.path = "a:b/c", .name = "d"}));
  EXPECT_FALSE(*parse_layout_reference("debian:oci"));
  for (const char* wrong : {"oci:", "oci:../x", "oci:a/../../b", "oci:x:", "oci-archive::1"})
    EXPECT_FALSE(parse_layout_reference(wrong)) << wrong;
}

RegistryReference registry(std::string_view text) {
  const auto found = parse_registry_reference(text);
  EXPECT_TRUE(found) << text;
  return found.value_or(RegistryReference{});
}

TEST(ImageReference, ANameInARegistry) {
  EXPECT_EQ(registry("app"), (RegistryReference{.path = "app"}));
  EXPECT_EQ(registry("team/app:1.2_x"), (RegistryReference{.path = "team/app", .tag = "1.2_x"}));
  EXPECT_EQ(registry("host.example/team/app:1"),
            (RegistryReference{.host = "host.example", .path = "team/app", .tag = "1"}));
  EXPECT_EQ(registry("127.0.0.1:5000/a"),
            (RegistryReference{.host = "127.0.0.1:5000", .path = "a"}));
  EXPECT_EQ(registry("localhost/a"), (RegistryReference{.host = "localhost", .path = "a"}));
  EXPECT_EQ(registry("[::1]:80/a"), (RegistryReference{.host = "[::1]:80", .path = "a"}));
  EXPECT_EQ(registry("a/b:t@" + kDigest),
            (RegistryReference{.path = "a/b", .tag = "t", .digest = kDigest}));
  // Without a dot or a port the first part is no host.
  EXPECT_EQ(registry("host/a"), (RegistryReference{.path = "host/a"}));
}

TEST(ImageReference, NothingElseReachesAProgram) {
  for (const std::string& wrong : {std::string(),
                                   std::string("A"),
                                   std::string("a b"),
                                   std::string("-a"),
                                   std::string("a//b"),
                                   std::string("/a"),
                                   std::string("a/"),
                                   std::string("a:"),
                                   std::string("a:-x"),
                                   std::string("host.example/"),
                                   std::string("user@host.example/a"),
                                   std::string("host.example:0/a"),
                                   std::string("host.example:99999/a"),
                                   std::string("host.example:/a"),
                                   std::string("http://host.example/a"),
                                   std::string("host.example/../a"),
                                   std::string("host.example?x/a"),
                                   std::string("ho\nst.example/a"),
                                   std::string("a@sha256:12"),
                                   "a@sha512:" + std::string(64, 'a'),
                                   std::string(600, 'a')}) {
    EXPECT_FALSE(parse_registry_reference(wrong)) << wrong;
  }
}

TEST(ImageReference, RegistriesOfAnOperator) {
  EXPECT_THAT(parse_registries("host.example,http://127.0.0.1:5000").value(),
              ElementsAre(RegistryHost{.host = "host.example"},
                          RegistryHost{.host = "127.0.0.1:5000", .plain = true}));
  EXPECT_TRUE(parse_registries("").value().empty());
  for (const char* wrong : {"https://host.example", "host.example/path", "a b", "host:x"}) {
    const auto refused = parse_registries(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("HOST:PORT"));
  }
}

}  // namespace
}  // namespace firebreak::image
