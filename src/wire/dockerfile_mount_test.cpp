#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/dockerfile.h"

namespace firebreak::wire {
namespace {

using testing::HasSubstr;
using Type = Mount::Type;

Result<Mount> mount(std::string_view options) {
  return parse_mount(options, [](std::string_view name) {
    return name == "DIR" ? std::optional<std::string>("/data") : std::nullopt;
  });
}

TEST(DockerfileMount, Bind) {
  EXPECT_EQ(mount("target=/x"), (Mount{.type = Type::bind, .target = "/x", .read_only = true}));
  EXPECT_EQ(mount("type=bind,from=build,src=/a,dst=/x,rw"),
            (Mount{.type = Type::bind, .from = "build", .source = "/a", .target = "/x"}));
  EXPECT_EQ(mount("source=a,destination=$DIR/x,ro=false"),
            (Mount{.type = Type::bind, .source = "a", .target = "/data/x"}));
  EXPECT_EQ(mount("target=/x,readwrite=false"),
            (Mount{.type = Type::bind, .target = "/x", .read_only = true}));
  EXPECT_EQ(mount("\"target=/a,b\""), (Mount{.target = "/a,b", .read_only = true}));
}

TEST(DockerfileMount, Cache) {
  EXPECT_EQ(mount("type=cache,target=/c"),
            (Mount{.type = Type::cache, .target = "/c", .id = "/c"}));
  EXPECT_EQ(mount("type=cache,id=pip,target=/c,sharing=locked,mode=0700,uid=1,gid=2,ro"),
            (Mount{.type = Type::cache,
                   .target = "/c",
                   .id = "pip",
                   .read_only = true,
                   .sharing = Mount::Sharing::locked,
                   .mode = 0700,
                   .uid = 1,
                   .gid = 2}));
  EXPECT_EQ(mount("type=cache,target=/c,sharing=private")->sharing, Mount::Sharing::exclusive);
}

TEST(DockerfileMount, TmpfsAndSecret) {
  EXPECT_EQ(mount("type=tmpfs,target=/t"), (Mount{.type = Type::tmpfs, .target = "/t"}));
  EXPECT_EQ(mount("type=tmpfs,target=/t,size=64m")->size, 64U << 20);
  EXPECT_EQ(mount("type=tmpfs,target=/t,size=1GiB")->size, 1U << 30);
  EXPECT_EQ(mount("type=tmpfs,target=/t,size=100")->size, 100);
  const Mount plain{.type = Type::secret, .target = "/run/secrets/k", .id = "k", .read_only = true};
  EXPECT_EQ(mount("type=secret,id=k"), plain);
  EXPECT_EQ(mount("type=secret,source=k"), plain);
  EXPECT_EQ(mount("type=secret,target=/etc/k")->id, "k");
  EXPECT_EQ(
      mount("type=secret,id=k,env=KEY,required=true"),
      (Mount{.type = Type::secret, .id = "k", .read_only = true, .required = true, .env = "KEY"}));
  EXPECT_EQ(mount("type=secret,id=k,required")->required, true);
}

TEST(DockerfileMount, Errors) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "unknown"},
      {"type=cache", "target=/path"},
      {"type=ssh", "type=secret"},
      {"type=what,target=/x", "unknown type 'what'"},
      {"target=/x,foo=bar", "unknown option 'foo'"},
      {"target=/x,foo", "needs a value"},
      {"target=/x,ro=maybe", "true or false"},
      {"target=/x,mode=0700", "secrets and caches"},
      {"target=/x,sharing=locked", "for caches"},
      {"type=cache,target=/x,sharing=all", "shared, private or locked"},
      {"target=/x,size=5", "for tmpfs"},
      {"type=tmpfs,target=/x,size=much", "number of bytes"},
      {"type=tmpfs,target=/x,size=9999999t", "number of bytes"},
      {"target=/x,required", "for secrets"},
      {"target=/x,env=A", "for secrets"},
      {"type=secret", "needs an id"},
      {"type=secret,id=a,source=b", "not both"},
      {"type=secret,id=a,from=b", "no 'from'"},
      {"type=secret,id=a,mode=8", "octal"},
      {"type=secret,id=a,mode=17777", "octal"},
      {"type=secret,id=a,uid=-1", "a number"},
      {"type=cache,target=/x,from=$DIR", "takes no variables"},
      {"\"target=/x", "not closed"}};
  for (const auto& [options, said] : cases) {
    const auto result = mount(options);
    ASSERT_FALSE(result) << options;
    EXPECT_THAT(result.error().message, HasSubstr(said)) << options;
  }
}

TEST(DockerfileMount, Source) {
  EXPECT_EQ(mount_source("type=bind,from=build,target=/x"), "build");
  EXPECT_EQ(mount_source("type=$T,target=/x"), "");
  EXPECT_EQ(mount_source("\""), "");
}

}  // namespace
}  // namespace firebreak::wire
