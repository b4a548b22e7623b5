#include "server/egress_fixture.h"

#include "base/sys.h"

namespace firebreak::testing_support {
namespace {

// Runs in the guest: each argument is "tcp HOST PORT", "udp HOST PORT", "name NAME"; prints one
// line of what came of each.
constexpr const char* kProbe = R"py(
import errno, socket, sys
def words(error):
    if isinstance(error, socket.timeout): return "timeout"
    if isinstance(error, socket.gaierror): return "no such name"
    return errno.errorcode.get(error.errno, str(error))
for what in sys.argv[1:]:
    kind, host, *port = what.split()
    try:
        if kind == "name":
            found = {entry[4][0] for entry in socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)}
            print(",".join(sorted(found)))
            continue
        family, _, _, _, to = socket.getaddrinfo(host, int(port[0]),
            type=socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)[0]
        s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        s.settimeout(6)
        s.connect(to)
        s.send(b"GET / HTTP/1.0\r\n\r\n" if kind == "tcp" else b"hello")
        data = s.recv(4096)
        print("ok", data.split(b"\r\n\r\n")[-1].decode().strip())
    except OSError as error:
        print(words(error))
)py";

// Of the operator: as wide as can be, and one place alone.
constexpr const char* kPolicies = R"({
  "wide": {"rules": [{"action": "allow", "cidr": "0.0.0.0/0"}, {"action": "allow", "cidr": "::/0"},
                     {"action": "allow", "cidr": "10.0.0.0/8"},
                     {"action": "allow", "cidr": "192.168.0.0/16"},
                     {"action": "allow", "cidr": "100.64.0.0/10"},
                     {"action": "allow", "cidr": "fc00::/7"}]},
  "narrow": {"rules": [{"action": "allow", "cidr": "203.0.113.20"}]}})";

}  // namespace

void EgressFixture::SetUpTestSuite() {
  server = new ServerProcess();
  const std::string policies = server->data_dir() + "/policies.json";
  ASSERT_TRUE(sys::swap_file(policies, kPolicies));
  server->set_options({FakeInternet::dns_option(), "--egress-policies=" + policies, "--pool-most=2",
                       "--tick-ms=100", "--build-egress=narrow"});
  ASSERT_TRUE(server->start()) << server->log();
  ASSERT_TRUE(server->wait_python()) << server->log();
}

void EgressFixture::TearDownTestSuite() {
  delete server;
}

Answer EgressFixture::run(const std::string& policy) {
  return server->call("POST", "/v1/microvms",
                      json::object{{"image", "python"}, {"egress", policy}});
}

std::string EgressFixture::launch(const std::string& policy) {
  const Answer made = run(policy);
  EXPECT_EQ(made.status, 201) << made.text << server->log();
  return made.text_of("id");
}

void EgressFixture::kill(const std::string& id) {
  server->call("DELETE", "/v1/microvms/" + id);
}

std::vector<std::string> EgressFixture::lines_of(const std::string& id, const json::array& argv) {
  const Answer answer = server->call("POST", "/v1/microvms/" + id + "/exec",
                                     json::object{{"argv", argv}, {"timeoutMs", 120'000}});
  EXPECT_EQ(answer.status, 200) << answer.text;
  EXPECT_EQ(answer.text_of("exitCode"), "0") << answer.text;
  std::vector<std::string> lines;
  std::string text = answer.text_of("stdout");
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
    lines.push_back(text.substr(0, end));
  return lines;
}

std::vector<std::string> EgressFixture::probe(const std::string& id,
                                              const std::vector<std::string>& what) {
  json::array argv{"python3", "-c", kProbe};
  for (const std::string& one : what) argv.push_back(json::string(one));
  std::vector<std::string> lines = lines_of(id, argv);
  EXPECT_EQ(lines.size(), what.size());
  lines.resize(what.size());
  return lines;
}

std::string EgressFixture::shell(const std::string& id, const std::string& command) {
  return server
      ->call("POST", "/v1/microvms/" + id + "/exec",
             json::object{{"shell", command}, {"timeoutMs", 60'000}})
      .text_of("stdout");
}

void EgressFixture::set_policy(const std::string& name, const std::string& text) {
  const Answer set =
      server->call("PUT", "/v1/egress-policies/" + name, json::parse(text).as_object());
  ASSERT_EQ(set.status, 200) << set.text;
}

Answer EgressFixture::set_tenant(const json::object& settings) {
  const std::string tenant(json::parse(server->call("GET", "/v1/tenants").text)
                               .at("items")
                               .at(0)
                               .at("accountId")
                               .as_string());
  return server->call("PUT", "/v1/tenants/" + tenant + "/egress", settings);
}

std::string EgressFixture::log_of(const std::string& id) {
  return server->call("GET", "/v1/microvms/" + id + "/egress?limit=1000").text;
}

}  // namespace firebreak::testing_support

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto made = firebreak::testing_support::FakeInternet::enter();
  if (!made) return 1;
  firebreak::testing_support::EgressFixture::internet = made.get();
  return RUN_ALL_TESTS();
}
