// The store as tasks see it: its calls block threads of their own, so that a slow disk never stops
// the event loop. Writers take turns on one connection, readers have another and wait for nobody's
// disk. Owned by whoever wires the program; one executor.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "net/semaphore.h"
#include "net/task.h"
#include "store/store.h"

namespace firebreak::store {

class Database {
 private:
  // A connection and the thread that its calls block: they come in the order they were posted in.
  // Tasks keep it: one that is destroyed with its event loop may outlive the Database.
  struct Lane {
    explicit Lane(net::asio::any_io_executor executor) : turn(std::move(executor)) {}
    std::unique_ptr<Store> store;            // on the thread
    std::optional<store::Transaction> open;  // on the thread: the one that a task holds
    net::Mutex turn;                         // on the executor: held as long as it is
    net::asio::thread_pool thread{1};
  };

 public:
  // Held by a task. While it lives, everybody else who writes waits: hold it for store calls only,
  // and write through it. Rolled back if it is destroyed before commit().
  class Transaction {
   public:
    Transaction(Transaction&& other) noexcept = default;
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();

    // `work` gets the Store and returns a Result. What one that failed has written so far is still
    // part of the transaction.
    template <class Work>
    net::Task<std::invoke_result_t<Work, Store&>> run(Work work) {
      const std::shared_ptr<Lane> lane = lane_;
      auto call = [&lane, &work] { return work(*lane->store); };
      co_return co_await net::run_blocking(lane->thread, call);
    }
    // The end of it: kept, or undone if this fails. Code::timeout when the deadline has passed.
    net::Task<Result<>> commit(Deadline deadline);

   private:
    friend class Database;
    Transaction(std::shared_ptr<Lane> lane, net::Mutex::Guard turn)
        : lane_(std::move(lane)), turn_(std::move(turn)) {}
    std::shared_ptr<Lane> lane_;  // null once it has ended
    net::Mutex::Guard turn_;
  };

  Database(const net::asio::any_io_executor& executor, std::unique_ptr<Store> store);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // One transaction in one go. `work` returns a Result: what it wrote is kept when it succeeded,
  // and undone when it failed. One that takes a `const Store&` only reads, and sees one moment.
  template <class Work>
    requires std::is_invocable_v<Work, const Store&>
  net::Task<std::invoke_result_t<Work, const Store&>> run(Work work) {
    const std::shared_ptr<Lane> lane = reader_;
    auto call = [this, &lane, &work]() -> std::invoke_result_t<Work, const Store&> {
      // Its first use opens it. The writer's outlives this one.
      if (!lane->store) {
        FB_TRY_ASSIGN(lane->store, writer_->store->connect());
      }
      FB_TRY_ASSIGN(const auto moment, lane->store->begin(Access::read, Deadline::in(kLockTime)));
      return work(std::as_const(*lane->store));
    };
    co_return co_await net::run_blocking(lane->thread, call);
  }
  template <class Work>
    requires(!std::is_invocable_v<Work, const Store&>)
  net::Task<std::invoke_result_t<Work, Store&>> run(Work work,
                                                    Durability durability = Durability::now) {
    const std::shared_ptr<Lane> lane = writer_;
    net::Mutex::Guard turn;
    // The thread's queue is order enough, unless a task holds a transaction.
    if (!lane->turn.idle()) {
      FB_CO_TRY_ASSIGN(turn, co_await lane->turn.lock(Deadline::in(kTurnTime)));
    }
    auto call = [&]() -> std::invoke_result_t<Work, Store&> {
      FB_TRY_ASSIGN(store::Transaction all,
                    lane->store->begin(Access::write, Deadline::in(kLockTime), durability));
      auto result = work(*lane->store);
      if (result) FB_TRY(all.commit(Deadline::in(kLockTime)));
      return result;
    };
    co_return co_await net::run_blocking(lane->thread, call);
  }

  // Code::timeout when others hold the store until the deadline, or another program for longer than
  // kLockTime.
  net::Task<Result<Transaction>> begin(Deadline deadline, Durability durability = Durability::now);
  // Everything committed until now has reached the disk. Nobody who reads waits for it.
  net::Task<Result<>> sync();

 private:
  // For the transaction that a task holds: far beyond what any takes.
  static constexpr auto kTurnTime = std::chrono::seconds(30);
  // For another program that writes to the store, while everybody who writes here waits behind.
  static constexpr auto kLockTime = std::chrono::seconds(5);

  std::shared_ptr<Lane> writer_;
  std::shared_ptr<Lane> reader_;
};

}  // namespace firebreak::store
