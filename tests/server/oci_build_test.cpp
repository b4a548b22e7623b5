// Images that come from elsewhere: OCI layouts in the context, and a registry, asked by the real
// skopeo. The images are written by oci_images.py.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/build_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

void write_layout(const std::string& directory) {
  const std::string command =
      std::string("python3 ") + FIREBREAK_OCI_IMAGES + " layout " + directory;
  ASSERT_EQ(std::system(command.c_str()), 0);
}

// A registry on this host that has the image of a layout as team/app:1, for those with its key.
class TestRegistry {
 public:
  TestRegistry() {
    char path[] = "/tmp/fb-registry-XXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    write_layout(layout());
    auto input = sys::pipe();
    EXPECT_TRUE(input);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input->first.get(), STDIN_FILENO);
    const std::string from = layout();
    const std::string log = directory_ + "/log";
    std::vector<std::string> words{"/usr/bin/python3", FIREBREAK_OCI_IMAGES, "registry", from, log};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    input_ = std::move(input->second);
    for (int i = 0; i < 600 && !requests().contains('\n'); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    host_ = "127.0.0.1:" + requests().substr(0, requests().find('\n'));
  }
  ~TestRegistry() {
    input_.reset();
    ::waitpid(pid_, nullptr, 0);
    fs::remove_all(directory_);
  }
  TestRegistry(const TestRegistry&) = delete;
  TestRegistry& operator=(const TestRegistry&) = delete;

  std::string layout() const { return directory_ + "/layout"; }
  // With a key for this registry, and one for another.
  std::string keys() const { return directory_ + "/auth.json"; }
  void write_keys(const std::string& base64, mode_t mode) const {
    std::ofstream(keys()) << R"({"auths": {")" << host_ << R"(": {"auth": ")" << base64
                          << R"("}, "host.example": {"auth": "b3RoZXI6b3RoZXI="}}})";
    ::chmod(keys().c_str(), mode);
  }
  const std::string& host() const { return host_; }
  // Its port, then a line for each.
  std::string requests() const { return sys::read_file(directory_ + "/log").value_or(""); }

 private:
  std::string directory_;
  std::string host_;
  UniqueFd input_;
  pid_t pid_ = -1;
};

// Every file of the test's directory, with what a layer decides about it.
constexpr const char* kPicture =
    "cd /; find t | sort | while read p; do stat -c '%n %F %a %u:%g' $p; done; stat -c '%a %u' /; "
    "stat -c %h t/first; cat t/kept t/dir-to-file run/in-run; readlink var/run; ls dev/console";
constexpr const char* kTree = R"(t directory 750 1234:1234
t/built regular file 644 1234:1234
t/dir-to-file regular file 644 0:0
t/first regular file 640 7:8
t/kept regular file 600 0:0
t/link-to-dir directory 700 0:0
t/opaque directory 755 0:0
t/opaque/new regular file 644 0:0
t/pipe fifo 644 0:0
t/real directory 755 0:0
t/second regular file 640 7:8
711 0
2
again
file
run
/run
)";

// The image's user cannot see everything.
std::string as_root(ServerProcess& server, const std::string& image, const std::string& script) {
  const std::string id = trimmed(server.cli({"run", image}).out);
  const auto done = server.cli({"exec", "--user", "root", id, "--", "sh", "-c", script});
  server.cli({"kill", id});
  return done.out;
}

TEST_F(Build, StandsOnAnOciLayoutOfItsContext) {
  const Context context(R"(FROM oci:layout:v1
RUN echo "$FROM_OCI $TRIGGERED" > built
COPY --from=oci-archive:image.tar /t/dir-to-file /copied
RUN --mount=from=oci:layout:v1,source=/t,target=/m cat /m/dir-to-file >> built
)");
  write_layout(context.path() + "/layout");
  const std::string pack =
      "tar -C " + context.path() + "/layout -cf " + context.path() + "/image.tar .";
  ASSERT_EQ(std::system(pack.c_str()), 0);
  const auto made = build("oci", context);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err,
              AllOf(HasSubstr("oci:layout:v1 is the image sha256:"), HasSubstr("with 3 layers"),
                    HasSubstr("layer sha256:"), HasSubstr("/dev is the guest's own: 1")));
  EXPECT_EQ(as_root(*server, "oci", kPicture), kTree);
  // The configuration is inherited: everything runs as the image's user, in its directory.
  EXPECT_EQ(in_clone("oci", "cat /t/built /copied; id -u; pwd; stat -c %u /proc/1"),
            "yes 1\nfile\nfile\n1234\n/t\n1234\n");
  EXPECT_THAT(in_clone("oci", "cat /etc/hosts"), Not(HasSubstr("of the image")));

  context.put("unused", "");
  const auto again = build("oci", context);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("is the same: taken"), Not(HasSubstr("booting"))));
}

TEST_F(Build, WrongOciImagesAreRefused) {
  struct Case {
    const char* dockerfile;
    const char* message;
  };
  for (const auto& [dockerfile, message] : {
           Case{"FROM oci:/etc\n", "--base-aliases NAME=oci:/etc"},
           Case{"FROM scratch\nCOPY --from=oci-archive:/etc/x.tar / /\n", "absolute path"},
           Case{"FROM oci:layout/../../etc\n", "does not lead up"},
           Case{"FROM oci:missing\n", "no file 'missing/index.json'"},
           Case{"FROM oci:layout:v2\n", "there are 'v1'"},
           Case{"FROM oci-archive:Dockerfile\n", "tar archive"},
           Case{"FROM 169.254.169.254/latest\n", "--registries"},
           Case{"FROM host.example/team/app:1\n", "--registries"},
       }) {
    const Context context(dockerfile);
    write_layout(context.path() + "/layout");
    const auto refused = build("wrong", context);
    EXPECT_NE(refused.status, 0);
    EXPECT_THAT(refused.err, HasSubstr(message)) << dockerfile;
  }
  EXPECT_THAT(server->cli({"image", "show", "wrong"}).err, HasSubstr("there is no image"));

  // One bit of each blob in turn: a document is found out at once, a layer when it is read.
  const Context context("FROM oci:layout:v1\nRUN echo never >&2\n");
  write_layout(context.path() + "/layout");
  for (const auto& blob : fs::directory_iterator(context.path() + "/layout/blobs/sha256")) {
    std::string content = *sys::read_file(blob.path(), 16 << 20);
    // What belongs to the other machine's image is not looked at.
    if (content.contains("\"diff_ids\": []") || content.contains("\"layers\": []")) continue;
    content.back() ^= 1;
    std::ofstream(blob.path(), std::ios::binary) << content;
    const auto damaged = build("damaged", context, {"--no-cache"});
    EXPECT_NE(damaged.status, 0) << blob.path();
    EXPECT_THAT(damaged.err, AllOf(HasSubstr("damaged"), Not(HasSubstr("never")))) << blob.path();
    content.back() ^= 1;
    std::ofstream(blob.path(), std::ios::binary) << content;
  }
  EXPECT_EQ(machines(), 0U);
}

TEST_F(Build, StandsOnImagesOfTheRegistriesThatAreAllowed) {
  const TestRegistry registry;
  ASSERT_EQ(server->stop(), 0);
  // What a server that was killed has left.
  const std::string left = server->data_dir() + "/registry/left";
  ASSERT_TRUE(sys::mkdirs(left, 0700));
  auto more = options();
  more.push_back("--registries=http://" + registry.host() + ",host.example");
  more.push_back("--base-aliases=debian:trixie=oci:" + registry.layout());
  more.push_back("--registry-auth=" + registry.keys());
  server->set_options(more);
  registry.write_keys("cmVhZGVyOndyb25n", 0644);
  EXPECT_FALSE(server->start());
  EXPECT_THAT(server->log(), AllOf(HasSubstr("--registry-auth"), HasSubstr("chmod 600")));
  registry.write_keys("cmVhZGVyOndyb25n", 0600);
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_FALSE(sys::exists(left));

  const Context context("FROM " + registry.host() +
                        "/team/app:1\nRUN echo \"$FROM_OCI\" > built\n");
  const auto wrong = build("wrong-key", context);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("does not give the image"));
  // The file is read for each build.
  registry.write_keys("cmVhZGVyOm9wZW4tc2VzYW1l", 0600);
  const auto made = build("fetched", context, {"--no-cache"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, AllOf(HasSubstr("asking " + registry.host()), HasSubstr("fetching")));
  EXPECT_THAT(registry.requests(), HasSubstr("/blobs/"));
  EXPECT_EQ(as_root(*server, "fetched", kPicture), kTree);
  EXPECT_THAT(*sys::list_dir(server->data_dir() + "/registry"), IsEmpty());

  // The layers are there already: the tag is asked for, and nothing else is fetched. A name without
  // a host is one of the first registry; the digest may be given.
  const std::string before = registry.requests();
  const Context plain("FROM team/app:1\nRUN echo \"$FROM_OCI\" > built\n");
  const auto again = build("fetched", plain);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("is the same: taken"), Not(HasSubstr("fetching"))));
  const std::string asked = registry.requests().substr(before.size());
  EXPECT_THAT(asked, HasSubstr("/manifests/1"));
  const Context alias("FROM debian:trixie\nRUN echo \"$FROM_OCI\" > built\n");
  const auto aliased = build("fetched", alias);
  ASSERT_EQ(aliased.status, 0) << aliased.err;
  EXPECT_THAT(aliased.err, AllOf(HasSubstr("by an alias"), HasSubstr("is the same: taken")));

  const Context missing("FROM team/app:missing\n");
  const auto unknown = build("missing", missing);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("does not give the image"), HasSubstr("no such thing")));
  const std::string port = registry.host().substr(registry.host().find(':'));
  for (const std::string& host :
       {"127.0.0.2" + port, std::string("localhost") + port, std::string("169.254.169.254")}) {
    const Context elsewhere("FROM " + host + "/team/app:1\n");
    const auto refused = build("elsewhere", elsewhere);
    EXPECT_NE(refused.status, 0);
    EXPECT_THAT(refused.err, HasSubstr("--registries " + host));
  }
  EXPECT_THAT(server->cli({"image", "show", "elsewhere"}).err, HasSubstr("there is no image"));

  // Whoever cancels does not wait for a registry.
  const Context slow("FROM team/slow:1\n");
  std::thread canceller([&] {
    for (int i = 0; i < 600 && !registry.requests().contains("team/slow"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(server->cli({"image", "cancel", "slow"}).status, 0);
  });
  const auto cancelled = build("slow", slow);
  canceller.join();
  EXPECT_THAT(cancelled.err, HasSubstr("the build was cancelled"));
  EXPECT_THAT(*sys::list_dir(server->data_dir() + "/registry"), IsEmpty());
  EXPECT_EQ(machines(), 0U);

  ASSERT_EQ(server->stop(), 0);
  for (const char* secret :
       {"cmVhZGVyOndyb25n", "cmVhZGVyOm9wZW4tc2VzYW1l", "open-sesame", "b3RoZXI6b3RoZXI="}) {
    EXPECT_THAT(server->log(), Not(HasSubstr(secret)));
    for (const char* kept : {"/builds", "/layers", "/snapshots", "/registry"})
      EXPECT_FALSE(holds(server->data_dir() + kept, secret)) << kept;
  }
  server->set_options(options());
  ASSERT_TRUE(server->start()) << server->log();
}

}  // namespace
}  // namespace firebreak::testing_support
