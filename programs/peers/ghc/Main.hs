-- | peer --list, or peer PROGRAM SIZE PROCESSORS (the processors are the run-time system's option -N).
module Main (main) where

import Control.Concurrent (runInUnboundThread)
import System.Environment (getArgs)
import System.Exit (ExitCode (ExitFailure), exitWith)
import System.IO (hPutStrLn, stderr)
import Text.Printf (printf)
import Text.Read (readMaybe)

import Clock (Program)
import qualified Fork
import qualified Talk

programs :: [(String, Program)]
programs =
  [ ("spawn", Talk.spawn)
  , ("ping-pong", Talk.pingPong)
  , ("parallel-ping-pong", Talk.parallelPingPong)
  , ("send", Talk.send)
  , ("choose", Talk.choose)
  , ("sieve", Talk.sieve)
  , ("fib-channel", Fork.fibChannel)
  , ("fib-join", Fork.fibJoin)
  , ("tak-join", Fork.takJoin)
  , ("mergesort", Fork.mergesort)
  ]

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    ["--list"] -> mapM_ (putStrLn . fst) programs
    [name, size, _]
      | Just program <- lookup name programs, Just n <- readMaybe size -> measure program n
    _ -> do
      hPutStrLn stderr "expected --list, or PROGRAM SIZE PROCESSORS of that list"
      exitWith (ExitFailure 64)

-- The main thread is bound to an OS thread, which makes its switches dear.
measure :: Program -> Int -> IO ()
measure program size = runInUnboundThread $ do
  _ <- program (smaller size)
  (seconds, answer) <- program size
  printf "{\"seconds\": %.9f, \"answer\": \"%d\"}\n" seconds answer

-- | For warmth: a tenth of the work, or a few levels of recursion less.
smaller :: Int -> Int
smaller size
  | size < 100 = max 0 (size - 3)
  | otherwise = size `div` 10
