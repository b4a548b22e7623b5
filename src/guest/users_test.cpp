#include "guest/users.h"

#include "guest/test_root.h"

namespace firebreak::guest {
namespace {

class Users : public RootTest {
 protected:
  void SetUp() override {
    RootTest::SetUp();
    if (IsSkipped()) return;
    dir("etc");
    put("etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\n"
        "# comment\n"
        "broken:x:1\n"
        "bad:x:one:1::/:\n"
        "ann:x:1000:1001:Ann,,,:/home/ann:/bin/zsh\n"
        "bare:x:1002:1002:::\n"
        "4000:x:5:6::/n:/bin/sh");
    put("etc/group",
        "root:x:0:\nstaff:x:50:ann,bob\nwheel:x:10:bob,ann\nannex:x:51:annex\nann:x:1001:\n");
  }
  Result<UserSpec> resolve(std::string_view spec) { return resolve_user(root_fd_.get(), spec); }
};

TEST_F(Users, NamesAndNumbers) {
  const UserSpec ann{.uid = 1000,
                     .gid = 1001,
                     .groups = {10, 50, 1001},
                     .home = "/home/ann",
                     .shell = "/bin/zsh",
                     .name = "ann"};
  EXPECT_EQ(resolve("ann"), ann);
  EXPECT_EQ(resolve("1000"), ann);
  EXPECT_EQ(resolve("root"),
            (UserSpec{.groups = {0}, .home = "/root", .shell = "/bin/bash", .name = "root"}));
  EXPECT_EQ(resolve("bare"),
            (UserSpec{.uid = 1002, .gid = 1002, .groups = {1002}, .name = "bare"}));
  EXPECT_EQ(resolve("777"), (UserSpec{.uid = 777, .groups = {0}}));
  EXPECT_EQ(resolve("4000")->uid, 5U);  // a name goes before a number
}

TEST_F(Users, Groups) {
  EXPECT_EQ(resolve("ann:staff"), (UserSpec{.uid = 1000,
                                            .gid = 50,
                                            .groups = {50},
                                            .home = "/home/ann",
                                            .shell = "/bin/zsh",
                                            .name = "ann"}));
  EXPECT_EQ(resolve("777:888"), (UserSpec{.uid = 777, .gid = 888, .groups = {888}}));
  EXPECT_EQ(resolve("777:wheel")->gid, 10U);
  EXPECT_EQ(resolve("ann:7")->gid, 7U);
}

TEST_F(Users, Refusals) {
  for (const char* bad :
       {"", ":", ":0", "nobody", "bad", "broken", "ann:", "ann:none", "ann:ann:ann", "-1",
        "4294967295", "1:4294967295", "99999999999", "a\nb"}) {
    const auto user = resolve(bad);
    ASSERT_FALSE(user) << bad;
    EXPECT_EQ(user.error().code, Code::invalid) << bad;
  }
}

TEST_F(Users, DatabasesThatAreNotFiles) {
  ASSERT_EQ(::unlink((root_ + "/etc/group").c_str()), 0);
  EXPECT_EQ(resolve("ann")->groups, std::vector<gid_t>{1001});
  ASSERT_EQ(::unlink((root_ + "/etc/passwd").c_str()), 0);
  EXPECT_EQ(resolve("5"), (UserSpec{.uid = 5, .groups = {0}}));
  EXPECT_EQ(resolve("root").error().code, Code::invalid);
  ASSERT_EQ(::mkfifo((root_ + "/etc/passwd").c_str(), 0666), 0);
  EXPECT_EQ(resolve("root").error().code, Code::conflict);
  ASSERT_EQ(::unlink((root_ + "/etc/passwd").c_str()), 0);
  link("../../../../../../../etc/passwd", "etc/passwd");  // inside the root: itself
  EXPECT_FALSE(resolve("root"));
  put("etc/group", std::string(5 << 20, '\n'));
  ASSERT_EQ(::unlink((root_ + "/etc/passwd").c_str()), 0);
  EXPECT_EQ(resolve("5").error().code, Code::exhausted);
}

}  // namespace
}  // namespace firebreak::guest
