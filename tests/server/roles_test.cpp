// A program in a real guest with nothing but Debian's boto3: its credential chain finds the role's
// keys in the metadata service, and it calls the API over its own network, as on AWS.
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/fake_internet.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kPackages = "/usr/lib/python3/dist-packages";

// Runs in the guest; the argument is the API's address. Prints one line of what came of each step.
constexpr const char* kProgram = R"py(
import sys
sys.path.insert(0, "/opt/aws")
import boto3, botocore.exceptions
def client(name):
    return boto3.client(name, endpoint_url=sys.argv[1], region_name="local-1")
def told(what):
    try:
        return what()
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
s3 = client("s3")
print(client("sts").get_caller_identity()["Arn"])
print(told(lambda: s3.get_object(Bucket="shared", Key="mine/given")["Body"].read().decode()))
print(told(lambda: s3.put_object(Bucket="shared", Key="mine/made", Body=b"by the guest") and "written"))
print(told(lambda: s3.get_object(Bucket="shared", Key="other/secret")["Body"].read().decode()))
print(told(lambda: s3.put_object(Bucket="shared", Key="other/made", Body=b"x") and "written"))
print(told(lambda: ",".join(e["Key"] for e in s3.list_objects_v2(Bucket="shared", Prefix="mine/")["Contents"])))
print(told(lambda: s3.list_objects_v2(Bucket="shared") and "listed"))
)py";

// Runs in the guest: prints the id of the key it finds.
constexpr const char* kKeyId = R"py(
import json, urllib.request
def ask(path, method="GET", **headers):
    request = urllib.request.Request("http://169.254.169.254/latest/" + path, method=method,
        headers={"X-aws-ec2-metadata-" + name.replace("_", "-"): value for name, value in headers.items()})
    return urllib.request.urlopen(request, timeout=20).read().decode()
token = ask("api/token", "PUT", token_ttl_seconds="60")
print(json.loads(ask("meta-data/iam/security-credentials/execution_role", token=token))["AccessKeyId"])
)py";

// The tenant's side: a bucket with two objects; afterwards what the guest wrote.
constexpr const char* kOwner = R"py(
import json, sys
import boto3
keys = json.load(open(sys.argv[1]))
s3 = boto3.client("s3", endpoint_url=sys.argv[2], region_name="local-1",
                  aws_access_key_id=keys["accessKeyId"], aws_secret_access_key=keys["secretAccessKey"])
if sys.argv[3] == "make":
    s3.create_bucket(Bucket="shared")
    s3.put_object(Bucket="shared", Key="mine/given", Body=b"hello")
    s3.put_object(Bucket="shared", Key="other/secret", Body=b"secret")
else:
    sys.exit(s3.get_object(Bucket="shared", Key="mine/made")["Body"].read() != b"by the guest")
)py";

constexpr const char* kPolicy = R"({"Statement": [
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"],
     "Resource": "arn:aws:s3:::shared/mine/*"},
    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::shared",
     "Condition": {"StringLike": {"s3:prefix": "mine/*"}}}]})";

FakeInternet* internet = nullptr;

class GuestRolesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<ServerProcess>();
    files_ = server_->data_dir() + "-files";
    fs::create_directories(files_);
    ASSERT_TRUE(sys::replace_file(files_ + "/roles.json",
                                  "{\"everybodys\": " + std::string(kPolicy) + "}", 0600));
    server_->set_listen(std::string(FakeInternet::kRelayed));
    server_->set_options({FakeInternet::dns_option(), "--insecure-listen", "--pool-most=1",
                          "--tick-ms=100", "--roles=" + files_ + "/roles.json"});
    ASSERT_TRUE(server_->start()) << server_->log();
    ASSERT_TRUE(server_->wait_python()) << server_->log();
  }
  static void TearDownTestSuite() {
    server_.reset();
    fs::remove_all(files_);
  }

  static int owner(const std::string& what) {
    return server_
        ->run({"/usr/bin/python3", "-W", "ignore", "-c", kOwner,
               server_->data_dir() + "/credentials.json", server_->url(), what})
        .status;
  }

  static std::string launch(const std::string& role, const std::string& egress) {
    const Answer made =
        server_->call("POST", "/v1/microvms",
                      json::object{{"image", "python"}, {"egress", egress}, {"role", role}});
    EXPECT_EQ(made.status, 201) << made.text << server_->log();
    return made.text_of("id");
  }
  static Answer python(const std::string& id, const std::string& program,
                       const std::string& argument = "") {
    const json::array argv{"python3", "-W", "ignore", "-c", program, argument};
    return server_->call("POST", "/v1/microvms/" + id + "/exec",
                         json::object{{"argv", argv}, {"timeoutMs", 240'000}});
  }

  // The packages, without the descriptions of services that nobody here calls.
  static void collect_packages() {
    const fs::path to = files_ + "/aws";
    fs::create_directories(to / "botocore/data");
    const auto all = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
    for (const char* name : {"boto3", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py",
                             "requests", "certifi", "chardet", "charset_normalizer", "idna"})
      fs::copy(fs::path(kPackages) / name, to / name, all);
    for (const auto& entry : fs::directory_iterator(fs::path(kPackages) / "botocore")) {
      if (entry.path().filename() != "data")
        fs::copy(entry.path(), to / "botocore" / entry.path().filename(), all);
    }
    for (const auto& entry : fs::directory_iterator(fs::path(kPackages) / "botocore/data")) {
      const std::string name = entry.path().filename();
      if (!entry.is_directory() || name == "s3" || name == "sts")
        fs::copy(entry.path(), to / "botocore/data" / name, all);
    }
  }

  static inline std::unique_ptr<ServerProcess> server_;
  static inline std::string files_;
};

TEST_F(GuestRolesTest, AProgramWithTheStockCredentialChainReachesItsPrefixAndNothingElse) {
  ASSERT_TRUE(fs::exists(std::string(kPackages) + "/boto3")) << "python3-boto3 is missing";
  ASSERT_EQ(owner("make"), 0);
  const json::object body{{"policy", json::parse(kPolicy)}};
  ASSERT_EQ(server_->call("PUT", "/v1/roles/prefix", body).status, 200);
  const json::object rule{
      {"action", "allow"}, {"cidr", "203.0.113.40/32"}, {"ports", json::array{9000}}};
  const json::object policy{{"rules", json::array{rule}}};
  ASSERT_EQ(server_->call("PUT", "/v1/egress-policies/api", policy).status, 200);
  const std::string id = launch("prefix", "api");
  collect_packages();
  const auto copied = server_->cli({"cp", files_ + "/aws", id + ":/opt/aws"});
  ASSERT_EQ(copied.status, 0) << copied.err;
  const Answer ran = python(id, kProgram, std::string(FakeInternet::kRelayUrl));
  const std::string account(json::parse(*sys::read_file(server_->data_dir() + "/credentials.json"))
                                .at("accountId")
                                .as_string());
  EXPECT_EQ(ran.text_of("stdout"), "arn:aws:sts::" + account + ":assumed-role/prefix/" + id +
                                       "\nhello\nwritten\nAccessDenied\nAccessDenied\n"
                                       "mine/given,mine/made\nAccessDenied\n")
      << ran.text;
  EXPECT_EQ(owner("look"), 0);
  // What it asked of its metadata never left it.
  EXPECT_FALSE(internet->has_arrived("tcp 169.254.169.254"));
  const Answer log = server_->call("GET", "/v1/microvms/" + id + "/egress");
  EXPECT_THAT(log.text, testing::Not(HasSubstr("169.254.169.254")));
  EXPECT_EQ(server_->call("DELETE", "/v1/microvms/" + id).status, 200);
}

// Of a role that the operator has given to everybody.
TEST_F(GuestRolesTest, ANewServerBringsNewCredentials) {
  const std::string id = launch("everybodys", "NO_EGRESS");
  const std::string before = python(id, kKeyId).text_of("stdout");
  EXPECT_THAT(before, testing::StartsWith("ASIA"));
  server_->kill_hard();
  ASSERT_TRUE(server_->start()) << server_->log();
  const std::string after = python(id, kKeyId).text_of("stdout");
  EXPECT_THAT(after, testing::StartsWith("ASIA"));
  EXPECT_NE(after, before);
  EXPECT_EQ(server_->call("DELETE", "/v1/microvms/" + id).status, 200);
}

}  // namespace
}  // namespace firebreak::testing_support

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto made = firebreak::testing_support::FakeInternet::enter();
  if (!made) return 1;
  firebreak::testing_support::internet = made.get();
  return RUN_ALL_TESTS();
}
