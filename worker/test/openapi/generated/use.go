// What a program does with the client that openapi-generator makes.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"

	sealpin "client/sealpin"
)

func main() {
	configuration := sealpin.NewConfiguration()
	configuration.Servers[0].URL = os.Getenv("SERVICE")
	client := sealpin.NewAPIClient(configuration).FilesAPI
	ctx := context.WithValue(context.Background(), sealpin.ContextAccessToken, os.Getenv("KEY"))
	content := []byte{0, 1, 2, 253, 254, 255}
	data := base64.StdEncoding.EncodeToString(content)

	encrypted, _, err := client.StoreEncrypted(ctx).EncryptedJsonUpload(*sealpin.NewEncryptedJsonUpload("n.bin", data)).Execute()
	check(err)
	plain, _, err := client.StorePlain(ctx).JsonUpload(*sealpin.NewJsonUpload(data)).IdempotencyKey("one").Execute()
	check(err)

	list, _, err := client.ListFiles(ctx).Limit(2).Execute()
	check(err)
	expect(len(list.Files) == 2 && list.Files[0].FileId == plain.FileId && list.Files[1].Size == 6)

	for _, stored := range []*sealpin.NewlyStoredFile{encrypted, plain} {
		raw, _, err := client.GetFileContent(ctx, stored.FileId).Execute()
		check(err)
		read, err := io.ReadAll(raw)
		check(err)
		check(os.Remove(raw.Name()))
		expect(bytes.Equal(read, content))
		file, _, err := client.GetFile(ctx, stored.FileId).Execute()
		check(err)
		expect(file.GetData() == data && file.Mode == stored.Mode)
		receipt, _, err := client.DeleteFile(ctx, stored.FileId).Execute()
		check(err)
		expect((receipt.Key == "destroyed") == (stored.Mode == sealpin.ENCRYPTED))
		_, _, err = client.GetFile(ctx, stored.FileId).Execute()
		var failure *sealpin.GenericOpenAPIError
		expect(errors.As(err, &failure))
		problem, ok := failure.Model().(sealpin.Problem)
		expect(ok && problem.Code == "not_found")
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(holds bool) {
	if !holds {
		panic("it does not hold")
	}
}
