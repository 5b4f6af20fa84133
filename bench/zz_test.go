package bench
import ("testing";"os";"strconv")
func TestZZ(t *testing.T){
 n,_:=strconv.Atoi(os.Getenv("N"))
 for _,l:=range lockers{ if l.name==os.Getenv("L"){ p,err:=measurePairs("redis://127.0.0.1:16399/0",l,n); t.Log(l.name,p,err)}}
}
