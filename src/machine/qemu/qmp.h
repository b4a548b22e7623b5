// Client of QEMU's monitor (QMP) over a unix socket. An escaped guest owns its QEMU, so what comes
// back is untrusted: lines are bounded, answers are matched by id, every wait has a deadline. Owned
// by its machine; one executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/local/stream_protocol.hpp>

#include "base/json.h"
#include "net/task.h"

namespace firebreak::machine {

class Qmp : public std::enable_shared_from_this<Qmp> {
 public:
  using Socket = net::asio::local::stream_protocol::socket;

  // Sends qmp_capabilities at once; the first answer() waits for QEMU to be up.
  static std::shared_ptr<Qmp> start(Socket socket);
  Qmp(const Qmp&) = delete;
  Qmp& operator=(const Qmp&) = delete;
  ~Qmp();

  // QEMU has accepted the connection and answered qmp_capabilities.
  net::Task<Result<>> ready(Deadline deadline);
  // A command and its answer. `pass_fd` travels with it (for add-fd).
  net::Task<Result<json::value>> execute(std::string_view command, json::object arguments,
                                         Deadline deadline, int pass_fd = -1);
  // The two halves of execute(), for work that overlaps with the command.
  Result<std::uint64_t> submit(std::string_view command, json::object arguments, int pass_fd = -1);
  net::Task<Result<json::value>> answer(std::uint64_t id, Deadline deadline);
  // Sends without waiting for the answer (an error answer is dropped).
  Result<> post(std::string_view command, json::object arguments);
  void close();
  // Called for each event, until close().
  using OnEvent = std::function<void(std::string_view name, const json::object& data)>;
  void on_event(OnEvent handler) { on_event_ = std::move(handler); }

  // Parses one line of the monitor. Public for the fuzz target.
  struct Line {
    std::optional<std::uint64_t> id;
    Result<json::value> answer{json::value()};
    std::string event;  // name, if it is an event
    json::object data;  // of the event
  };
  static Result<Line> parse_line(std::string_view line);

 private:
  explicit Qmp(Socket socket);
  void read_more();
  void take_line(std::string_view line);
  void end(Error error);

  struct Waiter {
    std::optional<Result<json::value>> result;
    net::Event* arrived = nullptr;
    bool wanted = true;
  };

  Socket socket_;
  std::string in_;
  std::size_t used_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t hello_id_ = 0;
  std::map<std::uint64_t, Waiter> waiters_;
  std::optional<Error> failure_;
  OnEvent on_event_;
};

}  // namespace firebreak::machine
