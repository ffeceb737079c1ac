-- | What a program of this peer is.
module Clock (Program, timed) where

import Control.Exception (evaluate)
import GHC.Clock (getMonotonicTime)

-- | Does its work once, and tells how many seconds that took and what came out.
type Program = Int -> IO (Double, Int)

timed :: IO a -> IO (Double, a)
timed work = do
  start <- getMonotonicTime
  value <- work >>= evaluate
  end <- getMonotonicTime
  pure (end - start, value)
