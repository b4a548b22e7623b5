// A real server for tests: the program itself, on a free port, in a temporary directory, with its
// own cgroup and uids. Talks to it over HTTP like any client. One thread.
//
// The first start finds a copy of a data directory whose server has made the image `python` and
// was stopped, made once per build: what a restart finds. It finds nothing where the test says so,
// or says something about that image, about certificates or the guest's files.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "net/http_client.h"

namespace firebreak::testing_support {

struct Answer {
  int status = 0;
  json::value body;  // null when it is not JSON
  std::string text;

  std::string text_of(std::string_view name) const;  // member as text; "" when absent
  const json::object& object() const { return body.as_object(); }
};

class ServerProcess {
 public:
  // A fresh data directory; nothing runs yet.
  ServerProcess();
  // Kills the server and every machine, and removes the directory.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // The next start is the first one of its data directory.
  void start_from_nothing() { from_nothing_ = true; }
  // More options for the next start, as "--pool-most=0". Without one about pools there are none.
  void set_options(std::vector<std::string> options) { options_ = std::move(options); }
  // Of the next start. "none" unless it is said: what this machine trusts is no matter of a test,
  // and bases need not be copied.
  void set_guest_ca(std::string choice) { guest_ca_ = std::move(choice); }
  // "json", or "text".
  void set_log_format(std::string format) { log_format_ = std::move(format); }
  // The same parent of cgroups and the same uids as the other, as two servers with the default
  // options have.
  void share_host_with(const ServerProcess& other) { cgroup_ = other.cgroup_; }
  // Instead of a free port of 127.0.0.1.
  void set_listen(std::string address) { listen_ = std::move(address); }
  // Instead of the one that all tests use.
  void set_guest_dir(std::string directory) { guest_dir_ = std::move(directory); }
  // FIREBREAK_FAULT of the next start only.
  void crash_at(std::string point) { fault_ = std::move(point); }
  // FIREBREAK_PAUSE of the next start only.
  void pause_at(std::string point) { pause_ = std::move(point); }
  // True when it has come to the point within the time; go_on() lets it run again.
  bool wait_paused(std::chrono::seconds most);
  void go_on();
  // Returns when it listens; false when it ended before.
  bool start();
  // Puts a stopped server's data directory with the image `python` there; false: standard error
  // says why not.
  static bool copy_prepared_data(const std::string& directory);
  // SIGTERM, and waits. The exit status.
  int stop();
  void kill_hard();
  // True when it ended by itself within the time.
  bool wait_end(std::chrono::seconds most);
  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  // A value of its metrics; 0 when it is not there.
  double metric(const std::string& series);
  Answer call(const std::string& method, const std::string& path,
              std::optional<json::object> body = std::nullopt);
  Answer call_as(const std::string& api_key, const std::string& method, const std::string& path,
                 std::optional<json::object> body = std::nullopt, wire::Headers more = {});
  // Signed with SigV4, with the first key. `action` is the header x-amz-target of services that
  // have it.
  Answer call_signed(const std::string& method, const std::string& path,
                     std::optional<json::object> body = std::nullopt,
                     const std::string& service = "lambda", const std::string& action = "");
  // Sends a call and goes away after the time, without waiting for the answer.
  void call_and_leave(const std::string& path, const json::object& body,
                      std::chrono::milliseconds after);
  // What a stream says in that time, or until it has said a text: the answer as it came, with its
  // head.
  std::string listen_as(const std::string& api_key, const std::string& path,
                        std::chrono::milliseconds most, const std::string& until = "\n\n\n");
  // What comes back through a tunnel (a WebSocket) until it is closed; "" if it does not open.
  std::string through_tunnel(const std::string& path, const std::string& bytes);
  // As after a crash of the host: the server, all machines and all holders are gone at once.
  void end_everything();
  // Polls until the answer's member has that value; the last answer.
  Answer wait_for(const std::string& path, std::string_view member, const std::string& value,
                  std::chrono::seconds most = std::chrono::seconds(60));
  // The image `python` can be run.
  bool wait_python();

  // Runs the CLI against this server; its exit status, and what it printed.
  struct Output {
    int status = 0;
    std::string out;
    std::string err;
  };
  Output cli(const std::vector<std::string>& words, const std::string& input = "");
  // Any other program.
  Output run(const std::vector<std::string>& argv, const std::string& input = "");
  static std::string program();

  const std::string& data_dir() const { return data_dir_; }
  // Of a machine's process; 0 when there is none.
  pid_t machine_pid(const std::string& id) const;
  // SIGKILL to it; true when it has ended.
  bool kill_machine(const std::string& id) const;
  const std::string& url() const { return url_; }
  const std::string& endpoint_url() const { return endpoint_url_; }
  std::string ca_file() const { return data_dir_ + "/tls/ca.pem"; }
  std::string api_key() const;
  std::string log() const;

 private:
  Answer send(const net::HttpCall& call);
  bool speaks_of(std::string_view option) const;
  bool wants_prepared_data() const;

  std::string data_dir_;
  std::shared_ptr<const std::string> cgroup_;  // of several: the last one removes it
  std::string listen_ = "127.0.0.1:0";
  std::string guest_dir_;
  std::string log_format_ = "json";
  std::string guest_ca_ = "none";
  std::vector<std::string> options_;
  std::string fault_;
  std::string pause_;
  bool from_nothing_ = false;  // also once it has been started
  std::string url_;
  std::string endpoint_url_;
  pid_t pid_ = -1;
};

}  // namespace firebreak::testing_support
